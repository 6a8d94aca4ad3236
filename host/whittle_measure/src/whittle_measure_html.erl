%% @doc Writes pages in HTML: one file, without scripts, for light and dark screens, narrow and wide
%% ones, and paper.
-module(whittle_measure_html).

-export([document/2, document/3, table/1, figure/1, escaped/1, version/1]).

%% @doc Writes a page. The body is HTML.
-spec document(Title :: unicode:chardata(), Body :: unicode:chardata()) -> binary().
document(Title, Body) -> document(Title, "", Body).

%% @doc Writes a page with more rules of CSS.
-spec document(Title :: unicode:chardata(), Style :: unicode:chardata(),
               Body :: unicode:chardata()) -> binary().
document(Title, Style, Body) ->
    unicode:characters_to_binary(
      ["<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
       escaped(Title), "</title>\n<style>\n", style(), Style, "</style>\n</head>\n<body>\n<main>\n",
       Body, "</main>\n</body>\n</html>\n"]).

%% @doc Writes a table. Its first row is the head. An integer gets a comma between thousands.
-spec table([[unicode:chardata() | integer()]]) -> unicode:chardata().
table([Head | Rows]) ->
    ["<div class=\"table\"><table>\n<thead><tr>", [["<th>", cell(Cell), "</th>"] || Cell <- Head],
     "</tr></thead>\n<tbody>\n",
     [["<tr>", [["<td>", cell(Cell), "</td>"] || Cell <- Row], "</tr>\n"] || Row <- Rows],
     "</tbody>\n</table></div>\n"].

cell(Number) when is_integer(Number) -> whittle_number:text(Number);
cell(Text) -> escaped(Text).

%% @doc Writes a figure with a drawing in SVG.
-spec figure(unicode:chardata()) -> unicode:chardata().
figure(Svg) -> ["<figure>", Svg, "</figure>\n"].

%% @doc Writes a text so that it can stand in an element or in an attribute.
-spec escaped(unicode:chardata()) -> unicode:chardata().
escaped(Text) ->
    [case Char of
         $< -> "&lt;";
         $> -> "&gt;";
         $& -> "&amp;";
         $" -> "&quot;";
         _ -> Char
     end || Char <- unicode:characters_to_list(Text)].

%% @doc Names the Whittle that made a run, for the footer of a page. A run of an earlier Whittle
%% does not have it.
-spec version(#{binary() => term()}) -> unicode:chardata().
version(#{<<"whittle">> := Vsn}) when is_binary(Vsn) -> [" with Whittle ", escaped(Vsn)];
version(_) -> "".

style() ->
    ":root { --page: #ffffff; --ink: #1a1a1a; --line: #d0d0d0; }\n"
    "@media screen and (prefers-color-scheme: dark) {\n"
    "  :root { --page: #16181b; --ink: #e6e6e6; --line: #44484d; }\n}\n"
    "body { margin: 0; background: var(--page); color: var(--ink);\n"
    "  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }\n"
    "main { max-width: 60rem; margin: 0 auto; padding: 1rem; }\n"
    "h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }\n"
    "figure { margin: 1rem 0; overflow-x: auto; print-color-adjust: exact; }\n"
    "figure svg { max-width: 100%; min-width: 30rem; height: auto; }\n"
    ".table { overflow-x: auto; }\n"
    "table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }\n"
    "th, td { text-align: right; padding: 0.25rem 0.75rem; border-bottom: 1px solid var(--line);\n"
    "  white-space: nowrap; }\n"
    "th:first-child, td:first-child, th:last-child, td:last-child { text-align: left; }\n"
    "a { color: inherit; } footer { margin-top: 3rem; font-size: 0.85rem; opacity: 0.8; }\n"
    "@media screen { :root { color-scheme: light dark; } }\n"
    "@media print { .table, figure { overflow: visible; } th, td { white-space: normal; } }\n".
