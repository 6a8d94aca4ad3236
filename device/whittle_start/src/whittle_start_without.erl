%% @doc Replaces functions of features that a system was built without (docs/shaking.md).
-module(whittle_start_without).

-export([uppercase/1, lowercase/1, pid/3]).
-export([compiled/2, matched/2, one_line/4, request/2]).
-export([publish/2, control/0, terms/1, terms/3, terms/4]).

-ignore_xref([{prim_tty, unicode, 1}]).        % OTP 26 and newer

-type text() :: unicode:chardata().

%% @doc Replaces `unicode_util:uppercase/1' without the feature `graphemes'. Returns the first
%% character of a text and the rest. Changes only letters of ASCII.
-spec uppercase(text()) -> [char() | text()] | {error, text()}.
uppercase(Text) ->
    case unicode_util:cp(Text) of
        [C | Rest] when C >= $a, C =< $z -> [C - $a + $A | Rest];
        Other -> Other
    end.

%% @doc Replaces `unicode_util:lowercase/1' in the same way.
-spec lowercase(text()) -> [char() | text()] | {error, text()}.
lowercase(Text) ->
    case unicode_util:cp(Text) of
        [C | Rest] when C >= $A, C =< $Z -> [C - $A + $a | Rest];
        Other -> Other
    end.

%% @doc Replaces `c:pid/3' without the feature `shell'.
-spec pid(integer(), integer(), integer()) -> pid().
pid(Node, Number, Serial) ->
    list_to_pid(lists:append(["<", integer_to_list(Node), ".", integer_to_list(Number), ".",
                              integer_to_list(Serial), ">"])).

%% @doc Replaces `re:compile/2' without the feature `regexps'. Then only OTP's own code calls it.
-spec compiled(Pattern, Options :: [term()]) -> {ok, Pattern}.
compiled(Pattern, _) -> {ok, Pattern}.

%% @doc Replaces `re:run/2' in the same way. `net_kernel' checks the names of nodes with these two
%% patterns. This module must not match binaries, for the reason in whittle_start_cold.
-spec matched(string(), Pattern :: term()) -> {match, []} | nomatch.
matched(Text, "^[!-\x{ff}]*$") ->
    matched(lists:all(fun(C) -> C >= $! andalso C =< 16#ff end, line(Text)));
matched(Text, "^[0-9A-Za-z_\\-]+$") ->
    matched(line(Text) =/= [] andalso lists:all(fun is_of_name/1, line(Text)));
matched(Text, Pattern) -> whittle_start_removed:undefined(re, run, [Text, Pattern]).

matched(true) -> {match, []};
matched(false) -> nomatch.

%% `$' matches before a newline at the end, too.
line(Text) ->
    case lists:suffix("\n", Text) of
        true -> lists:droplast(Text);
        false -> Text
    end.

is_of_name(C) when C >= $0, C =< $9; C >= $A, C =< $Z; C >= $a, C =< $z -> true;
is_of_name(C) -> C =:= $_ orelse C =:= $-.

%% @doc Replaces `re:replace/4' without the feature `regexps'. Then only `logger_formatter' calls
%% it, with the pattern `,?\\r?\\n *': each new line becomes this text, with the comma before it and
%% the spaces after it.
-spec one_line(text(), Pattern :: string(), string(), Options :: [term()]) -> string().
one_line(Text, ",?\r?\n\s*", Instead, _) -> joined(unicode:characters_to_list(Text), Instead);
one_line(Text, Pattern, Instead, Options) ->
    whittle_start_removed:undefined(re, replace, [Text, Pattern, Instead, Options]).

joined([$,, $\r, $\n | Text], Instead) -> Instead ++ joined(unindented(Text), Instead);
joined([$,, $\n | Text], Instead) -> Instead ++ joined(unindented(Text), Instead);
joined([$\r, $\n | Text], Instead) -> Instead ++ joined(unindented(Text), Instead);
joined([$\n | Text], Instead) -> Instead ++ joined(unindented(Text), Instead);
joined([C | Text], Instead) -> [C | joined(Text, Instead)];
joined([], _) -> [].

unindented([$\s | Text]) -> unindented(Text);
unindented(Text) -> Text.

%% @doc Replaces `global_group:publish/2' without the feature `global', so without global groups.
%% Returns whether other nodes see this one in `nodes/0'.
-spec publish(Type :: hidden | normal, node()) -> boolean().
publish(Type, _Node) -> Type =:= normal.

%% @doc Replaces `prim_tty:handle_request/2' without the feature `terminal'. Returns what standard
%% output gets for a request of `user_drv', as `prim_tty' does with the option `output => raw'.
-spec request(prim_tty:state(), {putc_raw | putc | insert, binary()} | term()) ->
          {iodata(), prim_tty:state()}.
request(State, {putc_raw, Binary}) -> {Binary, State};
request(State, {What, Binary}) when What =:= putc; What =:= insert ->
    case prim_tty:unicode(State) of
        true -> {Binary, State};
        false -> {[latin1(C) || C <- unicode:characters_to_list(Binary)], State}
    end;
request(State, beep) -> {"\a", State};
request(State, _) -> {[], State}.

latin1(C) when C >= 512 -> lists:append(["\\x{", integer_to_list(C, 16), "}"]);
latin1(C) -> C band 255.

%% @doc Answers `--whittle-ping' and similar flags without the feature `control': prints an error
%% and halts.
-spec control() -> no_return().
control() ->
    io:put_chars(standard_error, "this file cannot send requests to a node: build it with "
                                 "--feature +control\n"),
    halt(1).

%% @doc Halts the node when it must read a text as terms, without the feature `terms'. To go on
%% without a setting in the text would be worse.
-spec terms(string()) -> no_return().
terms(Text) ->
    halt(lists:append(["this file cannot read Erlang terms (\"",
                       [C || C <- lists:sublist(Text, 40), C >= $\s, C =< $~],
                       "\"): build it with --feature +terms"])).

%% @doc Replaces `erl_scan:tokens/3', which reads a text in pieces. It accepts the end of the
%% text, and halts the node at any other piece. It runs in the process of standard input, so an
%% exception here would end that process.
-spec terms(Continuation :: term(), string() | eof, Location) -> {done, {eof, Location}, eof}.
terms(_, eof, Location) -> {done, {eof, Location}, eof};
terms(_, Text, _) -> terms(Text).

%% @doc Replaces `erl_scan:tokens/4' in the same way.
-spec terms(Continuation :: term(), string() | eof, Location, Options :: term()) ->
          {done, {eof, Location}, eof}.
terms(Continuation, Text, Location, _) -> terms(Continuation, Text, Location).
