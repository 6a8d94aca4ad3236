%% Opens pages in a browser: narrow and wide, on light and dark screens, and printed.
-module(pages).

-include_lib("stdlib/include/assert.hrl").

-export([opened/1]).

%% Opens a page, and checks the rules that hold for each page (open_page.mjs). Returns the numbers
%% of its figures and tables, and the text that a reader sees.
-spec opened(file:filename()) ->
          #{figures := non_neg_integer(), tables := non_neg_integer(), text := binary()}.
opened(Page) ->
    Program = filename:join([running:root(), "acceptance", "suites", "open_page.mjs"]),
    {Code, Output} = running:run(os:find_executable("node"), [Program, Page], #{env => keep}),
    ?assertMatch({0, _}, {Code, Output}),
    #{<<"faults">> := Faults, <<"figures">> := Figures, <<"tables">> := Tables,
      <<"text">> := Text} = jiffy:decode(Output, [return_maps]),
    ?assertEqual([], Faults),
    #{figures => Figures, tables => Tables, text => Text}.
