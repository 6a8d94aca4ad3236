%% Runs one suite in a separate node, and reads its result.
-module(otp_suites_run).

-export([suite/4, result/2]).
-export_type([result/0, 'case'/0]).

-type 'case'() ::
        {Path :: string(),              % "group/case", common_test's name
         passed | failed | skipped | lost,
                                        % lost: an earlier step failed
         Reason :: string()}.

-type result() ::
        #{app := string(),
          suite := string(),
          ended := finished | died | {late, Seconds :: pos_integer()},
          seconds := non_neg_integer(),
          cases := ['case'()]}.

%% All processes of a suite have this variable with the tree in their environment, so that the
%% command can find and end them: suites start daemons, and nodes that heart starts again.
-define(MARK, "WHITTLE_OTP_SUITE").

%% Runs a suite in a tree for at most the given seconds. The node's output goes to the file Log.
-spec suite(file:filename(), {string(), string()}, pos_integer(), file:filename()) ->
          result().
suite(Tree, {App, Suite}, Seconds, Log) ->
    Tests = filename:join(Tree, App ++ "_test"),
    Server = filename:join(Tree, "test_server"),
    Events = filename:join([Tree, "home", "events"]),
    _ = file:delete(Events),
    ok = file:write_file(filename:join(Tests, "one.spec"), spec(Tests, App, Suite)),
    Mark = ?MARK ++ "=" ++ Tree,
    ok = end_all(Mark),                 % of an interrupted call
    Begun = erlang:monotonic_time(second),
    Ended = run(node_words(Tests, Server, Tree, Events), Server,
                [{?MARK, Tree} | otp_suites_tree:environment(Tree)], Seconds, Log),
    ok = end_all(Mark),
    {Outcome, Cases} = result(events(Events), Ended),
    #{app => App, suite => Suite, ended => Outcome, cases => Cases,
      seconds => erlang:monotonic_time(second) - Begun}.

%% Uses the application's own specification for one suite. The specification omits the
%% application's benchmarks.
spec(Tests, App, Suite) ->
    {ok, Terms} = file:consult(filename:join(Tests, App ++ ".spec")),
    [io_lib:format("~tp.~n", [Term]) || T <- Terms, Term <- one(T, list_to_atom(Suite))].

one({suites, Dir, all}, Suite) -> [{suites, Dir, [Suite]}];
one({skip_groups, _, Suite, _, _} = Term, Suite) -> [Term];
one({skip_groups, _, _, _, _}, _) -> [];
one({skip_cases, _, Suite, _, _} = Term, Suite) -> [Term];
one({skip_cases, _, _, _, _}, _) -> [];
one({skip_suites, Dir, Suites, Why}, Suite) ->
    [{skip_suites, Dir, [Suite], Why} || lists:member(Suite, Suites)];
one(Term, _) -> [Term].

%% Starts the node as OTP's ts does in batch mode (ts_run:make_command/3), but with another name:
%% the tests of another checkout may run on this machine.
node_words(Tests, Server, Tree, Events) ->
    Config = [filename:join(Server, File) || File <- ["ts.config", "ts.unix.config"]],
    Options = [{abort_if_missing_suites, true}, {spec, ["one.spec"]},
               {allow_user_terms, true}, {auto_compile, false},
               {logdir, filename:join(Tree, "logs")}, {config, Config},
               {event_handler, {otp_suites_events, Events}}, {scale_timetraps, true}],
    Call = io_lib:format("ts_run:ct_run_test(~0p, ~0p).", [Tests, Options]),
    ["env", "PATH=" ++ Tests ++ ":" ++ proplists:get_value("PATH",
                                            lists:reverse(otp_suites_tree:environment(Tree))),
     "erl", "-sname", "test_server" ++ os:getpid(), "-rsh", "ssh",
     "-env", "ERL_CRASH_DUMP", filename:join([Tree, "home", "crash.dump"]),
     "-boot", "start_sasl", "-sasl", "errlog_type", "error", "-pz", Server,
     "-enable-feature", "maybe_expr", "-ct_test_vars", "{net_dir,\"\"}",
     "-eval", lists:flatten(Call), "-noinput",
     "-eval", "erlang:halt(0,[{flush,false}])."].

run(Words, Dir, Environment, Seconds, Log) ->
    [Program | Arguments] = otp_suites_tree:user() ++ Words,
    {ok, Handle} = file:open(Log, [write, raw]),
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", "exec \"$0\" \"$@\" </dev/null", Program | Arguments]},
                      {env, Environment}, {cd, Dir}, exit_status, binary,
                      stderr_to_stdout, hide]),
    Timer = erlang:start_timer(Seconds * 1000, self(), late),
    Ended = copy(Port, Timer, Seconds, Handle),
    ok = file:close(Handle),
    Ended.

copy(Port, Timer, Seconds, Handle) ->
    receive
        {Port, {data, Data}} ->
            ok = file:write(Handle, Data),
            copy(Port, Timer, Seconds, Handle);
        {Port, {exit_status, _}} ->
            _ = erlang:cancel_timer(Timer),
            died;
        {timeout, Timer, late} ->
            port_close(Port),
            {late, Seconds}
    end.

%% Repeats until no process is left, because one may start another.
end_all(Mark) ->
    case marked(Mark) of
        [] -> ok;
        Pids -> _ = os:cmd("kill -KILL " ++ lists:join(" ", Pids)), end_all(Mark)
    end.

marked(Mark) ->
    [Pid || File <- filelib:wildcard("/proc/[0-9]*/environ"),
            {ok, Environment} <- [file:read_file(File)],
            lists:member(list_to_binary(Mark),
                         binary:split(Environment, <<0>>, [global])),
            Pid <- [filename:basename(filename:dirname(File))]].

events(File) ->
    case file:read_file(File) of
        {ok, Text} -> terms(string:split(Text, "\n", all));
        {error, enoent} -> []
    end.

%% The last line may be incomplete.
terms(Lines) ->
    lists:append([case erl_scan:string(unicode:characters_to_list(Line)) of
                      {ok, Tokens, _} ->
                          case erl_parse:parse_term(Tokens) of
                              {ok, Term} -> [Term];
                              {error, _} -> []
                          end;
                      {error, _, _} -> []
                  end || Line <- Lines]).

%% Reads the cases of a suite from the output of otp_suites_events. A case that started and did not
%% finish has failed, for the reason that ended the node.
-spec result([term()], died | {late, pos_integer()}) ->
          {finished | died | {late, pos_integer()}, ['case'()]}.
result(Events, Ended) ->
    {Done, Open, _Groups} = lists:foldl(fun event/2, {[], [], []}, Events),
    case lists:member(finished, Events) of
        true ->
            {finished, lists:reverse(Done)};
        false ->
            Why = case Ended of
                      died -> "the node ended here";
                      {late, Seconds} -> io_lib:format("not done after ~b s", [Seconds])
                  end,
            At = case lists:reverse(Open) of
                     [] -> ["(node)"];
                     Begun -> [path(Path) || Path <- Begun]
                 end,
            {Ended, lists:reverse(Done, [{Path, failed, lists:flatten(Why)} || Path <- At])}
    end.

event({started, {init_per_group, Group}}, {Done, Open, Groups}) ->
    {Done, Open, [Group | Groups]};
event({started, {end_per_group, _}}, State) ->
    State;
event({started, Name}, {Done, Open, Groups}) ->
    {Done, [[Name | Groups] | Open], Groups};
event({done, {end_per_group, Group}, Outcome, Reason}, {Done, Open, Groups}) ->
    Left = case Groups of
               [Group | Above] -> Above;
               _ -> lists:delete(Group, Groups)
           end,
    {[{path([end_per_group | Groups]), Outcome, Reason} || Outcome =:= failed] ++ Done,
     Open, Left};
event({done, {init_per_group, _}, Outcome, Reason}, {Done, Open, Groups}) ->
    {[{path([init_per_group | Groups]), Outcome, Reason} || Outcome =:= failed] ++ Done,
     Open, Groups};
event({done, Name, Outcome, Reason}, {Done, Open, Groups})
  when Name =:= init_per_suite; Name =:= end_per_suite ->
    {[{path([Name]), Outcome, Reason} || Outcome =:= failed] ++ Done,
     lists:delete([Name], Open), Groups};
%% The event of a skipped case names its group, and the case has no start event.
event({done, {Name, Group}, Outcome, Reason}, {Done, Open, Groups}) ->
    {[{path([Name, Group]), Outcome, Reason} | Done], Open, Groups};
event({done, Name, Outcome, Reason}, {Done, Open, Groups}) ->
    %% Cases of a parallel group may end after the start of another group.
    Path = case [P || P = [N | _] <- Open, N =:= Name] of
               [Begun | _] -> Begun;
               [] -> [Name | Groups]
           end,
    {[{path(Path), Outcome, Reason} | Done], lists:delete(Path, Open), Groups};
event(_, State) ->
    State.

path(Innermost) ->
    lists:flatten(lists:join("/", [atom_to_list(N) || N <- lists:reverse(Innermost)])).
