%% Implements the command acceptance/otp-suites: it selects the suites, runs them and summarizes
%% their results.
-module(otp_suites).

-export([main/2, lock/1]).

-define(USAGE,
"usage: acceptance/otp-suites [--app APP] [--suite SUITE] [--quick] [--again] [OPTION...]

Runs OTP's own suites on the VM of flavor `size`, each in a node of its own.
Those that were run on the same VM before are not run again.

  --app APP       only those of emulator, kernel or stdlib; may be repeated
  --suite SUITE   only this one; may be repeated
  --quick         the chosen part that `make test` runs
  --again         run what is named also if it was run before
  --limit SECONDS end a suite after so long (default 3600)
  --variant V     only static, dynamic or stock
  --target NAME   on the VM for that target, by its emulator; static, so without
                  --variant, and --quick is those on numbers, bits and terms
  --rewritten     with a kernel and a stdlib that whittle_beam has rewritten, and with tables
  --shaken        with a kernel and a stdlib that were shaken: what a program which does
                  no more than start does not need is cold
  --list          say what there is and what was run; run nothing
  --table         print the table of all that was run; run nothing
  --json          the table as JSON

exit code: 0 every failure has its reason in acceptance/otp-suites.config; 1 one has
not; 2 usage error
").

%% The suites that exercise most for their time: see docs/otp-suites.md.
-define(QUICK,
        [{"emulator", ["smoke_test", "big", "decode_packet"]},
         {"kernel", ["os", "prim_file", "ram_file", "standard_error", "zlib",
                     "error_handler"]},
         {"stdlib", ["io", "lists", "math"]}]).

%% The suites that show word size and byte order, in less than six minutes of an emulator.
-define(QUICK_ELSEWHERE,
        [{"emulator", ["atomics", "beam_literals", "big", "bs_bincomp", "bs_bit_binaries",
                       "bs_construct", "bs_match_bin", "bs_match_int", "bs_match_misc",
                       "bs_match_tail", "counters", "decode_packet", "float", "guard",
                       "list_bif", "system_info", "tuple"]}]).

-spec main([string()], file:filename()) -> 0..2.
main(Words, Root) ->
    try
        run(words(Words, #{apps => [], suites => [], quick => false, again => false,
                           limit => 3600, variants => [], code => stock, show => run,
                           target => whittle_runtime:default_target(), json => false}),
            Root)
    catch
        throw:{usage, What} ->
            say("otp-suites: ~ts; try --help", [What]),
            2;
        throw:{failed, What, Output} ->
            say("otp-suites: ~ts~n~ts", [What, Output]),
            1
    end.

words([], #{target := Target, variants := Variants} = Options) ->
    case {Target =:= whittle_runtime:default_target(), Variants -- [static]} of
        {true, _} -> Options;
        {false, []} -> Options#{variants := [static]};
        {false, [Variant | _]} ->
            throw({usage, io_lib:format("--target has static alone, not ~s", [Variant])})
    end;
words(["--app", App | Rest], Options = #{apps := Apps}) ->
    words(Rest, Options#{apps := [App | Apps]});
words(["--suite", Suite | Rest], Options = #{suites := Suites}) ->
    words(Rest, Options#{suites := [Suite | Suites]});
words(["--limit", Seconds | Rest], Options) ->
    try list_to_integer(Seconds) of
        Limit when Limit > 0 -> words(Rest, Options#{limit := Limit});
        _ -> throw({usage, "--limit takes seconds"})
    catch
        error:badarg -> throw({usage, "--limit takes seconds"})
    end;
words(["--variant", Name | Rest], Options = #{variants := Variants}) ->
    case [V || V <- [static, dynamic, stock], atom_to_list(V) =:= Name] of
        [Variant] -> words(Rest, Options#{variants := [Variant | Variants]});
        [] -> throw({usage, "there is no variant " ++ Name})
    end;
words(["--target", Name | Rest], Options) ->
    case whittle_target:load(Name) of
        {ok, _} -> words(Rest, Options#{target := Name});
        {error, _} -> throw({usage, "there is no target " ++ Name})
    end;
words(["--quick" | Rest], Options) -> words(Rest, Options#{quick := true});
words(["--again" | Rest], Options) -> words(Rest, Options#{again := true});
words(["--rewritten" | Rest], Options) -> words(Rest, Options#{code := rewritten});
words(["--shaken" | Rest], Options) -> words(Rest, Options#{code := shaken});
words(["--json" | Rest], Options) -> words(Rest, Options#{json := true});
words(["--list" | Rest], Options) -> words(Rest, Options#{show := list});
words(["--table" | Rest], Options) -> words(Rest, Options#{show := table});
words(["--help" | _], Options) -> Options#{show := help};
words([Word | _], _) -> throw({usage, "unknown argument " ++ Word}).

run(#{show := help}, _Root) ->
    io:put_chars(?USAGE),
    0;
run(Options = #{show := Show, code := Code, target := Target}, Root) ->
    Elsewhere = [Target || Target =/= whittle_runtime:default_target()],
    Out = filename:join([Root, "out",
                         lists:join("-", ["otp-suites" | [atom_to_list(Code) || Code =/= stock]
                                          ++ Elsewhere])]),
    Parts = parts(Code, Target),
    Chosen = chosen(Options, Parts),
    case Show of
        list ->
            [io:format("~ts ~ts~ts~n", [App, Suite, [[" ", atom_to_list(V)] || V <- Ran]])
             || {App, Suite} = Which <- Chosen,
                Ran <- [[V || V <- [static, dynamic, stock],
                              kept(V, Which, Parts, Out) =/= none]]],
            0;
        table ->
            verdict(Chosen, Parts, Options, Root, Out);
        run ->
            Known = known(Root, Options),
            Lock = lock(Out),
            lists:foreach(fun(Which) -> all_variants(Which, Known, Parts, Options, Out) end,
                          Chosen),
            ok = whittle_lock:release(Lock),
            verdict(Chosen, Parts, Options, Root, Out)
    end.

%% @doc Locks the tree, because two suites cannot run in one. The lock ends with the process.
-spec lock(file:filename()) -> whittle_lock:lock().
lock(Out) ->
    ok = filelib:ensure_path(Out),
    File = filename:join(Out, "lock"),
    case whittle_lock:take(File, #{}) of
        {ok, Lock} -> Lock;
        busy -> throw({failed, "it is running here already: wait until it ends", ""});
        {error, no_flock} ->
            throw({failed, "flock is not on the PATH: install the Debian package util-linux", ""});
        {error, Reason} ->
            throw({failed, ["cannot lock ", File, ": ", file:format_error(Reason)], ""})
    end.

parts(Code, Target) ->
    Otp = made(whittle_runtime:otp(whittle_runtime:default_otp(), progress())),
    #{otp := Release} = Otp,
    Suites = made(whittle_runtime:suites(Release, progress())),
    #{otp => Otp, suites => Suites, runtime => runtime(Target, Release, static), code => Code,
      target => Target}.

%% Lists Whittle's modules that produce such code, because a result depends on them.
made_by(stock) -> [];
made_by(rewritten) ->
    lists:append([of_application(App) || App <- [whittle_beam, whittle_system]]);
made_by(shaken) ->
    lists:append([of_application(App)
                  || App <- [whittle_beam, whittle_shake, whittle_start, whittle_system]])
        ++ [otp_suites_shaken:module_info(md5)
            | [begin
                   {ok, Bytes} = file:read_file(filename:join(code:priv_dir(whittle_shake), Name)),
                   erlang:md5(Bytes)
               end || Name <- ["features.config", "names.config"]]].

of_application(App) ->
    Beams = filelib:wildcard(filename:join(code:lib_dir(App), "ebin/*.beam")),
    [Md5 || Beam <- lists:sort(Beams), {ok, {_, Md5}} <- [beam_lib:md5(Beam)]].

runtime(Target, Release, Linkage) ->
    made(whittle_runtime:ensure(#{target => Target, otp => Release,
                                  flavor => size, natives => [asn1, crypto],
                                  linkage => Linkage}, progress())).

made({ok, Made}) -> Made;
made({error, Error}) -> throw({failed, whittle_runtime:format_error(Error), ""}).

progress() ->
    #{progress => fun(#{task := Task, step := Step, percent := Percent}) ->
                          say("~ts: ~ts ~b %", [Task, Step, Percent])
                  end}.

chosen(#{apps := Apps, suites := Named, quick := Quick, target := Target},
       #{suites := #{dir := Dir, apps := All}}) ->
    Unknown = [A || A <- Apps, not lists:member(A, All)],
    Unknown =:= [] orelse throw({usage, "there are no suites of " ++ hd(Unknown)}),
    There = [{App, filename:basename(File, ".beam")}
             || App <- All,
                File <- lists:sort(filelib:wildcard(filename:join([Dir, App ++ "_test",
                                                                   "*_SUITE.beam"])))],
    Missing = Named -- [Suite || {_, Suite} <- There],
    Missing =:= [] orelse throw({usage, "there is no suite " ++ hd(Missing)}),
    [Which || {App, Suite} = Which <- There,
              Apps =:= [] orelse lists:member(App, Apps),
              Named =:= [] orelse lists:member(Suite, Named),
              not Quick orelse is_quick(Which, Target =:= whittle_runtime:default_target())].

is_quick({App, Suite}, IsHere) ->
    Quick = case IsHere of
                true -> ?QUICK;
                false -> ?QUICK_ELSEWHERE
            end,
    lists:member(Suite, [Name ++ "_SUITE" || Name <- proplists:get_value(App, Quick, [])]).

%%% Running

%% Runs the static VM first; then its failures on the stock interpreter, to find their cause; then
%% on the dynamic VM the cases that a static VM cannot run.
all_variants(Which, _Known, Parts, Options = #{variants := [_ | _] = Named}, Out) ->
    lists:foreach(fun(Variant) -> ensure(Variant, Which, Parts, Options, Out) end, Named);
all_variants(Which = {App, Suite}, Known, Parts, Options = #{quick := Quick}, Out) ->
    Cases = ensure(static, Which, Parts, Options, Out),
    Kinds = [Kind || {Path, failed, _} <- Cases,
                     {Kind, _} <- [otp_suites_table:reason(App, Suite, Path, Known)]],
    Quick orelse not lists:member(static, Kinds)
        orelse ensure(dynamic, Which, Parts, Options, Out),
    Quick orelse [K || K <- Kinds, K =/= static] =:= []
        orelse ensure(stock, Which, Parts, Options, Out),
    ok.

ensure(Variant, Which = {App, Suite}, Parts, Options, Out) ->
    #{limit := Limit, again := Again} = Options,
    case kept(Variant, Which, Parts, Out) of
        %% A suite that exceeded its time may finish with more time.
        #{cases := Cases, ended := Ended}
          when not Again, Ended =:= finished orelse Ended =:= died
               orelse element(2, Ended) >= Limit ->
            Cases;
        _ ->
            Tree = otp_suites_tree:ensure(Variant, tree_parts(Variant, Parts), Out),
            Log = filename:join([Out, "logs", atom_to_list(Variant), App ++ "." ++ Suite]),
            ok = filelib:ensure_dir(Log),
            say("~ts ~ts (~ts)", [App, Suite, Variant]),
            Result = #{cases := Cases} = otp_suites_run:suite(Tree, Which, Limit, Log),
            keep(Variant, Which, Parts, Result, Out),
            tell(Result),
            Cases
    end.

tell(#{ended := Ended, seconds := Seconds, cases := Cases}) ->
    Count = fun(Which) -> length([C || C = {_, Outcome, _} <- Cases, Outcome =:= Which]) end,
    say("    ~b passed, ~b failed, ~b skipped, ~b not run, ~b s~ts",
        [Count(passed), Count(failed), Count(skipped), Count(lost), Seconds,
         case Ended of finished -> ""; _ -> io_lib:format(", ~0p", [Ended]) end]),
    [say("    ~ts: ~ts", [Path, string:slice(Why, 0, 400)]) || {Path, failed, Why} <- Cases],
    ok.

tree_parts(Variant, Parts = #{otp := Otp = #{otp := Release}, suites := Suites, code := Code}) ->
    Common = #{otp => Otp, suites => Suites, code => Code, key => key(Variant, Parts)},
    case Variant of
        stock ->
            Common#{vm => none, cc => "gcc"};
        static ->
            #{runtime := #{executable := Vm}, target := Name} = Parts,
            {ok, #{emulator := Emulator}} = whittle_target:load(Name),
            Common#{vm => Vm, cc => "gcc", emulator => Emulator};
        dynamic ->
            #{target := Name} = Parts,
            #{executable := Vm} = runtime(Name, Release, dynamic),
            {ok, Target} = whittle_target:load(Name),
            Common#{vm => Vm, cc => Target}
    end.

%% Returns all inputs of a result. The dynamic VM has the same inputs as the static one.
key(Variant, #{otp := #{id := Otp}, suites := #{id := Suites}, runtime := #{id := Runtime},
               code := Code}) ->
    Of = {Suites, Otp, case Variant of stock -> stock; _ -> {Variant, Runtime} end},
    case made_by(Code) of
        [] -> Of;
        By -> {By, Of}
    end.

%%% Results, each in a separate file

kept(Variant, Which, Parts, Out) ->
    Key = key(Variant, Parts),
    case file:consult(file(Variant, Which, Out)) of
        {ok, [{Key, Result}]} -> Result;
        _ -> none
    end.

keep(Variant, Which, Parts, Result, Out) ->
    File = file(Variant, Which, Out),
    ok = filelib:ensure_dir(File),
    Text = io_lib:format("%% coding: utf-8~n~tp.~n", [{key(Variant, Parts), Result}]),
    ok = file:write_file(File ++ ".new", unicode:characters_to_binary(Text)),
    ok = file:rename(File ++ ".new", File).

file(Variant, {App, Suite}, Out) ->
    filename:join([Out, "results", atom_to_list(Variant), App ++ "." ++ Suite ++ ".config"]).

%% The reasons for one target come first.
known(Root, #{code := Code, target := Target}) ->
    Of = fun(Name) ->
                 {ok, Known} = file:consult(filename:join([Root, "acceptance", Name])),
                 Known
         end,
    lists:append([Of("otp-suites-targets.config")
                  || Target =/= whittle_runtime:default_target()])
        ++ Of("otp-suites.config")
        ++ lists:append([Of("otp-suites-shaken.config") || Code =:= shaken]).

verdict(Chosen, Parts = #{otp := #{vsn := Vsn}, runtime := #{id := Id}, code := Code},
        #{json := Json, show := Show, target := Target} = Options, Root, Out) ->
    Results = [{Variant, Result} || Which <- Chosen, Variant <- [static, dynamic, stock],
                                    Result <- [kept(Variant, Which, Parts, Out)],
                                    Result =/= none],
    Results =:= [] andalso throw({usage, "nothing was run on VM " ++ short(Id) ++ " yet"}),
    Account = otp_suites_table:account(Results, known(Root, Options)),
    io:put_chars(case Json of
                     true -> [otp_suites_table:json(Account), "\n"];
                     false ->
                         What = "OTP " ++ Vsn ++ ", VM " ++ short(Id)
                             ++ case Code of
                                    stock -> "";
                                    _ -> ", kernel and stdlib " ++ atom_to_list(Code)
                                end
                             ++ lists:append([", for " ++ Target
                                              || Target =/= whittle_runtime:default_target()]),
                         otp_suites_table:markdown(Account, #{'of' => What,
                                                              all => length(Chosen)})
                 end),
    [io:put_chars(["otp: ", otp_suites_table:summary(Account), "\n"])
     || Show =:= run, not Json],
    case otp_suites_table:explained(Account) of
        true -> 0;
        false -> 1
    end.

short(Id) -> string:slice(Id, 0, 16).

say(Format, Arguments) ->
    io:format(standard_error, Format ++ "~n", Arguments).
