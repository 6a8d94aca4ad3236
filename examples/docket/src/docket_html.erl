%% @doc Writes pieces of HTML. All texts from outside pass through text/1.
%% @hidden
-module(docket_html).

-export([page/3, heading/1, alert/1, link/2, field/1, area/1, option/3, text/1]).

-type input() :: #{label := string(), name := string(), value := unicode:chardata(),
                   type => string(),
                   spoken => string(),          % by a screen reader, in place of the label
                   required => boolean(), most => pos_integer()}.

%% @doc Writes a whole page.
-spec page(binary(), User :: binary(), iodata()) -> iodata().
page(Title, User, Content) ->
    ["<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>", text(Title),
     " - docket</title><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
     "<meta name=\"color-scheme\" content=\"light dark\">"
     "<link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"/style.css\">"
     "<script src=\"/script.js\" defer></script></head><body>"
     "<a class=\"skip\" href=\"#main\">Skip to the content</a>"
     "<header><a class=\"name\" href=\"/\">docket</a><nav aria-label=\"Pages\">"
     "<a href=\"/\">Cases</a> <a href=\"/new\">New case</a> <a href=\"/picture\">Picture</a></nav>"
     "<span class=\"user\">", text(User), "</span></header><main id=\"main\">",
     Content, "</main></body></html>\n"].

%% @doc Writes the heading of a page.
-spec heading(unicode:chardata()) -> iodata().
heading(Text) -> ["<h1>", text(Text), "</h1>"].

%% @doc Writes a message that a screen reader speaks at once.
-spec alert(unicode:chardata()) -> iodata().
alert(Text) -> ["<p class=\"alert\" role=\"alert\">", text(Text), "</p>"].

%% @doc Writes a link.
-spec link(unicode:chardata(), unicode:chardata()) -> iodata().
link(Address, Text) -> ["<a href=\"", text(Address), "\">", text(Text), "</a>"].

%% @doc Writes a field of a form with its label.
-spec field(input()) -> iodata().
field(#{label := Label, name := Name, value := Value} = Input) ->
    ["<label>", Label, " <input name=\"", Name, "\" type=\"", maps:get(type, Input, "text"),
     "\" value=\"", text(Value), "\"",
     [[" aria-label=\"", Spoken, "\""] || #{spoken := Spoken} <- [Input]],
     [[" maxlength=\"", integer_to_list(Most), "\""] || #{most := Most} <- [Input]],
     [" required" || #{required := true} <- [Input]], "></label>"].

%% @doc Writes a field of several lines with its label.
-spec area(input()) -> iodata().
area(#{label := Label, name := Name, value := Value}) ->
    %% A browser drops the first newline.
    ["<label>", Label, " <textarea name=\"", Name, "\" rows=\"4\">\n", text(Value),
     "</textarea></label>"].

%% @doc Writes an option of a list.
-spec option(unicode:chardata(), string(), Selected :: boolean()) -> iodata().
option(Value, Label, Selected) ->
    ["<option value=\"", text(Value), "\"", [" selected" || Selected], ">", Label, "</option>"].

%% @doc Writes text so that no part of it counts as HTML.
-spec text(unicode:chardata()) -> iodata().
text(Text) -> << <<(escaped(Byte))/binary>> || <<Byte>> <= unicode:characters_to_binary(Text) >>.

escaped($&) -> <<"&amp;">>;
escaped($<) -> <<"&lt;">>;
escaped($>) -> <<"&gt;">>;
escaped($") -> <<"&quot;">>;
escaped($') -> <<"&#39;">>;
escaped(Byte) -> <<Byte>>.
