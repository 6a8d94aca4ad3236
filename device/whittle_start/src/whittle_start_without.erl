%% @doc What stands in the place of features that a system was built without
%% (docs/shaking.md).
-module(whittle_start_without).

-export([uppercase/1, lowercase/1, pid/3]).
-export([control/0, terms/1, terms/3, terms/4]).

-type text() :: unicode:chardata().

%% @doc Without `graphemes': the first character of a text, and the rest, as `unicode_util'
%% gives them; in upper case where it is a letter of ASCII.
-spec uppercase(text()) -> [char() | text()] | {error, text()}.
uppercase(Text) ->
    case unicode_util:cp(Text) of
        [C | Rest] when C >= $a, C =< $z -> [C - $a + $A | Rest];
        Other -> Other
    end.

%% @doc The same in lower case.
-spec lowercase(text()) -> [char() | text()] | {error, text()}.
lowercase(Text) ->
    case unicode_util:cp(Text) of
        [C | Rest] when C >= $A, C =< $Z -> [C - $A + $a | Rest];
        Other -> Other
    end.

%% @doc Without `shell': the process whose numbers these are, as `c:pid/3' gives it.
-spec pid(integer(), integer(), integer()) -> pid().
pid(Node, Number, Serial) ->
    list_to_pid(lists:append(["<", integer_to_list(Node), ".", integer_to_list(Number), ".",
                              integer_to_list(Serial), ">"])).

%% @doc Without `control': says so to whoever asks by `--whittle-ping' and its kin.
-spec control() -> no_return().
control() ->
    io:put_chars(standard_error, "this file answers no questions: build it with --feature "
                                 "+control\n"),
    halt(1).

%% @doc Without `terms': ends the node where a text is to be read as terms, since to go on
%% without what was set is worse.
-spec terms(string()) -> no_return().
terms(Text) ->
    halt(lists:append(["no Erlang terms can be read (\"",
                       [C || C <- lists:sublist(Text, 40), C >= $\s, C =< $~],
                       "\"): build the file with --feature +terms"])).

%% @doc The same, for a text that is read piece by piece, as by `erl_scan:tokens/3'; at its end
%% there is nothing to be read. It runs in the process that reads: a mistake here would be one
%% of standard input.
-spec terms(Continuation :: term(), string() | eof, Location) -> {done, {eof, Location}, eof}.
terms(_, eof, Location) -> {done, {eof, Location}, eof};
terms(_, Text, _) -> terms(Text).

%% @doc The same, with options.
-spec terms(Continuation :: term(), string() | eof, Location, Options :: term()) ->
          {done, {eof, Location}, eof}.
terms(Continuation, Text, Location, _) -> terms(Continuation, Text, Location).
