%% @doc Runs the command `whittle'. It parses the arguments, runs the command that they name,
%% prints the result, and exits with 0 (done), 1 (the work failed) or 2 (usage error).
%%
%% Only this application prints or halts. The script `whittle' at the top of the tree starts it.
%% {@link whittle_command_line} parses the arguments. Each command is a module that returns its
%% result as text and as data.
-module(whittle).

-include_lib("kernel/include/file.hrl").

-export([start/0]).

-export_type([result/0, failure/0]).

%% The result of a command, for people and for `--json'.
-type result() :: #{text := unicode:chardata(), json := whittle_json:json(),
                    exit => 0 | 1,               % default: 0
                    stopped => 129 | 143}.       % the work ended in order after a signal

%% The failure of a command. A usage error exits with 2, any other failure with 1. {@link
%% whittle_failure} makes failures.
-type failure() :: #{kind := usage | work,
                     code := atom(),                    % the name of the error, for programs
                     text := unicode:chardata(),        % one line, without a period at its end
                     details := [unicode:chardata()]}.  % lines to print above it: the last output
                                                        % of another program, or a list

%% The report of a bug prints terms to this depth (`~P'), because a term may be as large as the
%% program.
-define(DEPTH, 100).

-callback command() -> whittle_command_line:command().
-callback run(whittle_command_line:values()) -> {ok, result()} | {error, failure()}.

%% @doc Runs the arguments after `-extra' and halts.
-spec start() -> no_return().
start() ->
    ok = io:setopts(standard_io, [{encoding, unicode}]),
    ok = io:setopts(standard_error, [{encoding, unicode}]),
    _ = code:del_path("."),
    ok = whittle_stop:install(),
    Words = init:get_plain_arguments(),
    Json = whittle_command_line:wants_json(Words),
    try run(entered(os:getenv("WHITTLE_DIRECTORY"), fun() -> parsed(Words) end)) of
        {ok, Code, Text} -> finish(Code, standard_io, Text);
        {error, Failure} ->
            data(Json, whittle_failure:json(Failure)),
            finish(whittle_failure:exit_code(Failure), standard_error,
                   [[[whittle_file_name:printable_lines(Said), $\n]
                     || Said <- maps:get(details, Failure)],
                    "whittle: ", whittle_file_name:printable(maps:get(text, Failure)), $\n])
    catch
        Class:Reason:Stack ->
            whittle_progress:clear(),
            Text = "this is a bug in Whittle; please report it",
            data(Json, whittle_failure:mistake(Text)),
            finish(1, standard_error, ["whittle: ", Text, ": ",
                                       io_lib:format("~0tP~n~tP~n", [{Class, Reason}, ?DEPTH,
                                                                     Stack, ?DEPTH])])
    end.

%% The VM started in another directory than the user (the script `whittle' says why).
entered(false, Parse) -> Parse();
entered("", _) ->
    {failed, "the current directory does not exist any more: change to another one"};
entered(Dir, Parse) ->
    true = os:unsetenv("WHITTLE_DIRECTORY"),
    case file:set_cwd(Dir) of
        ok -> Parse();
        {error, Reason} ->
            {failed, ["the current directory ", whittle_file_name:printable(Dir), $\s,
                      case is_raw(Dir) of
                          true -> "has a name that is not UTF-8";
                          false -> ["cannot be entered (", file:format_error(Reason), $)]
                      end, ": change to another one"]}
    end.

%% Tells whether a directory has a name that is not UTF-8. The VM gives each byte of such a name as
%% a character.
is_raw(Dir) ->
    lists:all(fun(C) -> C < 256 end, Dir)
        andalso not is_binary(unicode:characters_to_binary(list_to_binary(Dir)))
        andalso filelib:is_dir(list_to_binary(Dir)).

%% Prints an error as data to the place of the result. The line for people goes to stderr as
%% usual.
data(false, _) -> ok;
data(true, Json) ->
    _ = print(encoded(Json)),
    ok.

encoded(Json) ->
    [unicode:characters_to_list(iolist_to_binary(whittle_json:encode(Json))), $\n].

%% Another OTP on the PATH than the one that the set-up has prepared may lack these.
parsed(Words) ->
    %% The directory is in memory. The search for a module reads all directories of the code path.
    case [atom_to_list(Name) || Name <- [crypto, getopt, jiffy],
                                code:lib_dir(Name) =:= {error, bad_name},
                                code:which(Name) =:= non_existing] of
        [] -> in_utf8(Words);
        Missing ->
            {failed, ["the erl on the PATH (", code:root_dir(), ") has no library ",
                      lists:join(" and no library ", Missing), ": run `make' with another erl "
                      "first on the PATH, for example that of Debian"]}
    end.

%% The VM gives a word that is not UTF-8 in another form than a string.
in_utf8(Words) ->
    case [N || {N, Word} <- lists:enumerate(Words), not io_lib:char_list(Word)] of
        [] -> whittle_command_line:parse(Words);
        [N | _] ->
            {error, io_lib:format("argument ~b is not UTF-8: write it in UTF-8, or rename the file",
                                  [N])}
    end.

run({run, Module, Values}) ->
    Result = Module:run(Values),
    whittle_progress:clear(),
    case Result of
        {ok, #{json := Json} = Done} when is_map_key(json, Values) ->
            {ok, exit_code(Done), encoded(Json)};
        %% A result has names from outside: of files, functions and cells.
        {ok, #{text := Text} = Done} ->
            {ok, exit_code(Done), whittle_file_name:printable_lines(Text)};
        {error, _} = Error -> Error
    end;
run({show, Text}) -> {ok, 0, Text};
run({failed, Line}) -> whittle_failure:work(Line);
run({error, Line}) -> whittle_failure:usage(Line).

%% The script turns 144 and 145 into the code of the signal that it got itself.
exit_code(#{stopped := 143}) -> 144;
exit_code(#{stopped := 129}) -> 145;
exit_code(Done) -> maps:get(exit, Done, 0).

-spec finish(0..2 | 144..145, standard_io | standard_error, unicode:chardata()) -> no_return().
finish(Code, standard_error, Text) ->
    ok = whittle_progress:write(Text),
    halt(Code);
finish(Code, standard_io, Text) ->
    case print(Text) of
        ok ->
            halt(Code);
        {error, Reason} ->
            finish(without_output(Code), standard_error,
                   ["whittle: cannot write the result to standard output (", why(Reason),
                    "): free space there, or write it to another file\n"])
    end.

%% After a closed terminal there is often no output to write to. The code stays that of the signal.
without_output(Code) when Code >= 144 -> Code;
without_output(_) -> 1.

why(terminated) -> "it is closed";
why(Reason) -> file:format_error(Reason).

%% Prints a text to stdout. OTP's own process for stdout does not report a failed write. This
%% function uses it only for pipes, sockets and terminals, because a write to them may block.
print(Text) ->
    case {file:read_file_info("/dev/stdout"), io:columns()} of
        {{ok, #file_info{type = Type}}, {error, _}} when Type =:= regular; Type =:= device ->
            {ok, Output} = prim_file:file_desc_to_ref(1, [raw]),
            file:write(Output, unicode:characters_to_binary(Text));
        _ ->
            try io:put_chars(Text)
            catch error:terminated -> {error, terminated}        % the process for stdout has ended
            end
    end.
