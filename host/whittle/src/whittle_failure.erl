%% @doc Failures of commands: made from the errors of the other rooms, and as data for `--json'.
-module(whittle_failure).

-export([system/1, pack/1, runtime/1, shake/1]).
-export([line/1, above/1, exit_code/1, json/1, mistake/1]).

%% @doc A failure from an error of `whittle_system'.
-spec system(whittle_system:error()) -> {error, whittle:failure()}.
system(Error) -> {error, {work, whittle_system:format_error(Error), [], code(Error)}}.

%% @doc A failure from an error of `whittle_pack'.
-spec pack(whittle_pack:error()) -> {error, whittle:failure()}.
pack(Error) -> {error, {work, whittle_pack:format_error(Error), [], code(Error)}}.

%% @doc A failure from an error of `whittle_runtime', below the last words of the program that
%% failed.
-spec runtime(whittle_runtime:error()) -> {error, whittle:failure()}.
runtime(Error) ->
    {error, {work, whittle_runtime:format_error(Error), whittle_runtime:last_words(Error),
             code(Error)}}.

%% @doc A failure from an error of `whittle_shake'.
-spec shake(term()) -> {error, whittle:failure()}.
shake(Error) ->
    {error, {work, whittle_shake:format_error(Error), whittle_shake:details(Error), code(Error)}}.

code({error, Reason}) -> code(Reason);
code({in, {_File, Error}}) -> code(Error);
code(Reason) when is_tuple(Reason), is_atom(element(1, Reason)) -> element(1, Reason);
code(Reason) when is_atom(Reason) -> Reason;
code(_) -> failed.

%% @doc The line that says what happened, where, and what to do next.
-spec line(whittle:failure()) -> unicode:chardata().
line({_, Line}) -> Line;
line({work, Line, _}) -> Line;
line({work, Line, _, _}) -> Line.

%% @doc The lines that stand above it.
-spec above(whittle:failure()) -> [unicode:chardata()].
above({_, _}) -> [];
above({work, _, Above}) -> Above;
above({work, _, Above, _}) -> Above.

%% @doc What the command ends with.
-spec exit_code(whittle:failure()) -> 1 | 2.
exit_code({words, _}) -> 2;
exit_code(_) -> 1.

%% @doc The failure as data; docs/json.md describes it.
-spec json(whittle:failure()) -> whittle_json:json().
json({words, _} = Failure) -> json(usage, usage, Failure);
json({work, _, _, Code} = Failure) -> json(Code, work, Failure);
json(Failure) -> json(failed, work, Failure).

json(Code, Reason, Failure) ->
    #{error => #{code => Code, reason => Reason, exit_code => exit_code(Failure),
                 text => text(line(Failure)), details => [text(Line) || Line <- above(Failure)]}}.

%% @doc A mistake in the command itself as data.
-spec mistake(unicode:chardata()) -> whittle_json:json().
mistake(Text) ->
    #{error => #{code => mistake, reason => mistake, exit_code => 1, text => text(Text),
                 details => []}}.

%% Of a program's words some may be no text.
text(Chars) ->
    case unicode:characters_to_binary(Chars) of
        Text when is_binary(Text) -> Text;
        _ -> unicode:characters_to_binary(io_lib:format("~tp", [Chars]))
    end.
