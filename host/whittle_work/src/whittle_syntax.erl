%% @hidden Writes the strings of OTP 27 and newer in the syntax that OTP 25 scans: triple-quoted
%% strings (EEP 64) and sigils (EEP 66).
%%
%% Whittle runs on OTP 25 and reads configurations for newer VMs. Lines keep their numbers. A text
%% without such strings does not change; what only looks like one and has no end does not change
%% either.
-module(whittle_syntax).

-export([older/1]).

-define(PREFIXES, ["", "b", "s", "B", "S"]).
%% No text has this element.
-define(END, -1).

-define(IS_SPACE(C), (C =:= $\s orelse C =:= $\t orelse C =:= $\r)).
-define(IS_LETTER(C), (C >= $a andalso C =< $z orelse C >= $A andalso C =< $Z)).

%% @doc Rewrites a text.
-spec older(string()) -> string().
older(Text) -> lists:flatten(code(Text, [])).

%% `Endless' has the ends that the rest of the text lacks, so that no search repeats.
code([$% | _] = Text, Endless) ->
    {Comment, Rest} = lists:splitwith(fun(C) -> C =/= $\n end, Text),
    [Comment | code(Rest, Endless)];
code([$$ | Text], Endless) ->
    {Character, Rest} = character(Text),
    [$$, Character | code(Rest, Endless)];
code([$~ | Text], Endless) ->
    {Prefix, Rest} = lists:splitwith(fun(C) -> ?IS_LETTER(C) end, Text),
    case sigil(Prefix, Rest, Endless) of
        {ok, Written, Behind} -> [Written | code(Behind, Endless)];
        {endless, End} -> [$~, Prefix | code(Rest, [End | Endless])];
        none -> [$~, Prefix | code(Rest, Endless)]
    end;
code("\"\"\"" ++ _ = Text, Endless) ->
    case triple(Text, Endless) of
        {ok, Content, Lines, Behind} -> [quoted(Content), Lines | code(Behind, Endless)];
        {endless, End} -> ["\"\"" | code(tl(tl(Text)), [End | Endless])];
        none -> ["\"\"" | code(tl(tl(Text)), Endless)]
    end;
code([Quote | Text], Endless) when Quote =:= $"; Quote =:= $' ->
    {Within, Behind} = to_end(Text, Quote),
    [Quote, Within | code(Behind, Endless)];
code([C | Text], Endless) -> [C | code(Text, Endless)];
code([], _) -> [].

%% Takes a character behind `$', or behind a backslash in a string.
character([$\\, $^, C | Text]) -> {[$\\, $^, C], Text};
character([$\\, C | Text]) -> {[$\\, C], Text};
character([C | Text]) -> {[C], Text};
character([]) -> {[], []}.

%% Takes the content of a string with its end.
to_end([$\\ | _] = Text, Quote) ->
    {Character, Rest} = character(Text),
    {Within, Behind} = to_end(Rest, Quote),
    {[Character | Within], Behind};
to_end([Quote | Text], Quote) -> {[Quote], Text};
to_end([C | Text], Quote) ->
    {Within, Behind} = to_end(Text, Quote),
    {[C | Within], Behind};
to_end([], _) -> {[], []}.

%% Reads a sigil behind its prefix. Without a prefix it is a binary: verbatim between triple quotes,
%% and otherwise with escapes.
sigil(Prefix, "\"\"\"" ++ _ = Text, Endless) ->
    case lists:member(Prefix, ?PREFIXES) andalso triple(Text, Endless) of
        {ok, Content, Lines, Behind} when Prefix =:= "b"; Prefix =:= "s" ->
            {ok, Escaped, []} = delimited(Content ++ [?END], ?END, false, []),
            {ok, [written(Prefix, [$", Escaped, $"]), Lines], Behind};
        {ok, Content, Lines, Behind} -> {ok, [written(Prefix, quoted(Content)), Lines], Behind};
        {endless, _} = Found -> Found;
        _ -> none
    end;
sigil(Prefix, [Open | Text], Endless) ->
    Close = closing(Open),
    IsVerbatim = Prefix =:= "B" orelse Prefix =:= "S",
    case lists:member(Prefix, ?PREFIXES) andalso Close =/= none
         andalso not lists:member({IsVerbatim, Close}, Endless)
         andalso delimited(Text, Close, IsVerbatim, []) of
        {ok, Content, Behind} -> {ok, written(Prefix, [$", Content, $"]), Behind};
        none -> {endless, {IsVerbatim, Close}};
        false -> none
    end;
sigil(_, [], _) -> none.

written(Prefix, String) when Prefix =:= "s"; Prefix =:= "S" -> String;
written(_, String) -> ["<<", String, "/utf8>>"].

closing($() -> $);
closing($[) -> $];
closing(${) -> $};
closing($<) -> $>;
closing(C) when C =:= $/; C =:= $|; C =:= $'; C =:= $"; C =:= $`; C =:= $# -> C;
closing(_) -> none.

%% Takes the content of a sigil, as the content of a string.
delimited([Close | Text], Close, _, Taken) -> {ok, lists:reverse(Taken), Text};
delimited([$\\, C | Text], Close, false, Taken) -> delimited(Text, Close, false, [C, $\\ | Taken]);
delimited([C | Text], Close, Verbatim, Taken) when C =:= $"; C =:= $\\ ->
    delimited(Text, Close, Verbatim, [C, $\\ | Taken]);
delimited([C | Text], Close, Verbatim, Taken) -> delimited(Text, Close, Verbatim, [C | Taken]);
delimited([], _, _, _) -> none.

quoted(Content) ->
    [$", [case C of
              $" -> "\\\"";
              $\\ -> "\\\\";
              _ -> C
          end || C <- Content], $"].

%% Reads a string between lines of three or more quotes. The last line has the indentation of all
%% lines. Returns the content, and the line ends that it lacks.
triple(Text, Endless) ->
    {Quotes, Rest} = lists:splitwith(fun(C) -> C =:= $" end, Text),
    case {lists:member(Quotes, Endless), lists:dropwhile(fun(C) -> ?IS_SPACE(C) end, Rest)} of
        {false, [$\n | Lines]} ->
            case lines(Lines, Quotes, []) of
                none -> {endless, Quotes};
                Found -> Found
            end;
        _ -> none
    end.

lines([], _, _) -> none;
lines(Text, Quotes, Before) ->
    {Line, Rest} = lists:splitwith(fun(C) -> C =/= $\n end, Text),
    {Indent, Words} = lists:splitwith(fun(C) -> ?IS_SPACE(C) end, Line),
    case {lists:prefix(Quotes, Words), Rest} of
        {true, _} ->
            Content = lists:join($\n, [without(Indent, One) || One <- lists:reverse(Before)]),
            {ok, lists:flatten(Content), case Before of [] -> "\n"; _ -> "\n\n" end,
             lists:nthtail(length(Quotes), Words) ++ Rest};
        {false, [$\n | Next]} -> lines(Next, Quotes, [Line | Before]);
        {false, []} -> none
    end.

%% A line of white space may be shorter.
without([C | Indent], [C | Line]) -> without(Indent, Line);
without(_, Line) -> Line.
