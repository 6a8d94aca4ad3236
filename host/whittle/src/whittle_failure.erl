%% @doc Makes the failures of commands, and writes them as data for `--json'.
-module(whittle_failure).

-export([usage/1, work/1, work/2, make/1, measure/1, tune/1, load/1, board/1, replaces/2]).
-export([no_image/3, no_executable/3]).
-export([exit_code/1, json/1, mistake/1]).

%% @doc Makes the failure for a usage error.
-spec usage(unicode:chardata()) -> {error, whittle:failure()}.
usage(Text) -> {error, #{kind => usage, code => usage, text => Text, details => []}}.

%% @doc Makes the failure for work that cannot be done.
-spec work(unicode:chardata()) -> {error, whittle:failure()}.
work(Text) -> work(failed, Text).

%% @doc Makes a failure like {@link work/1}, with the name of the error.
-spec work(atom(), unicode:chardata()) -> {error, whittle:failure()}.
work(Code, Text) -> {error, #{kind => work, code => Code, text => Text, details => []}}.

%% @doc Makes a failure from an error of a build.
-spec make(whittle_make:reason()) -> {error, whittle:failure()}.
make(Reason) ->
    {error, #{kind => work, code => whittle_make:code(Reason),
              text => whittle_make:format_error(Reason), details => whittle_make:details(Reason)}}.

%% @doc Makes a failure from an error of a study.
-spec measure(whittle_measure:reason()) -> {error, whittle:failure()}.
measure(Reason) ->
    {error, #{kind => work, code => whittle_measure:code(Reason),
              text => whittle_measure:format_error(Reason),
              details => whittle_measure:details(Reason)}}.

%% @doc Makes a failure from an error of the tuner.
-spec tune(whittle_tune:reason()) -> {error, whittle:failure()}.
tune(Reason) ->
    {error, #{kind => work, code => whittle_tune:code(Reason),
              text => whittle_tune:format_error(Reason), details => whittle_tune:details(Reason)}}.

%% @doc Makes a failure from an error of a load test.
-spec load(whittle_load:reason()) -> {error, whittle:failure()}.
load(Reason) ->
    {error, #{kind => work, code => whittle_load:code(Reason),
              text => whittle_load:format_error(Reason), details => whittle_load:details(Reason)}}.

%% @doc Makes a failure from an error of a board or an image. A wrong name of a board, a target that
%% does not fit and a wrong variable are usage errors.
-spec board(whittle_board:error()) -> {error, whittle:failure()}.
board({Tag, _} = Reason)
  when Tag =:= unknown_board; Tag =:= other_target; Tag =:= bad_variable; Tag =:= no_cards ->
    usage(whittle_board:format_error(Reason));
board({Tag, _} = Reason) ->
    {error, #{kind => work, code => Tag, text => whittle_board:format_error(Reason),
              details => whittle_board:details(Reason)}}.

%% @doc Fails if a file is an image or a card of a board, or begins as an image. The text tells what
%% a command needs instead.
-spec no_image(file:filename(), Command :: string(), Needs :: unicode:chardata()) ->
          ok | {error, whittle:failure()}.
no_image(File, Command, Needs) ->
    case whittle_board:kind(File) of
        other -> ok;
        card ->
            usage([File, " is a card, and `whittle ", Command, "' needs ", Needs]);
        image ->
            usage([File, " is an image, and `whittle ", Command, "' needs ", Needs]);
        cut -> board({cut_image, File})
    end.

%% @doc Fails if a file is an executable that `whittle build' made.
-spec no_executable(file:filename(), Command :: string(), Needs :: unicode:chardata()) ->
          ok | {error, whittle:failure()}.
no_executable(File, Command, Needs) ->
    case whittle_file:first(File, 4) of
        {ok, <<127, "ELF">>} ->
            case whittle_pack:read(File) of
                {ok, _} ->
                    usage([File, " is an executable of Whittle, and `whittle ", Command, "' needs ",
                           Needs]);
                {error, _} -> ok
            end;
        _ -> ok
    end.

%% @doc Fails if the output of a command would replace the program that the command runs.
-spec replaces(file:filename(), file:filename()) -> ok | {error, whittle:failure()}.
replaces(Out, Program) ->
    case whittle_file:is_same(Out, Program) of
        true -> work([Out, " is the program itself: name another output with -o"]);
        false -> ok
    end.

%% @doc Returns the exit code of the command.
-spec exit_code(whittle:failure()) -> 1 | 2.
exit_code(#{kind := usage}) -> 2;
exit_code(#{kind := work}) -> 1.

%% @doc Writes the failure as data. docs/json.md describes the format.
-spec json(whittle:failure()) -> whittle_json:json().
json(#{kind := Kind, code := Code, text := Text, details := Details} = Failure) ->
    #{error => #{code => Code, reason => Kind, exit_code => exit_code(Failure),
                 text => text(Text), details => [text(Line) || Line <- Details]}}.

%% @doc Writes a bug of the command as data.
-spec mistake(unicode:chardata()) -> whittle_json:json().
mistake(Text) ->
    #{error => #{code => mistake, reason => mistake, exit_code => 1, text => text(Text),
                 details => []}}.

%% Converts a text to a binary. The output of another program may not be valid text, and a value
%% that a user gave may be any term.
text(Chars) ->
    try unicode:characters_to_binary(Chars) of
        Text when is_binary(Text) -> Text;
        _ -> term(Chars)
    catch
        error:badarg -> term(Chars)
    end.

term(Term) -> unicode:characters_to_binary(io_lib:format("~tp", [Term])).
