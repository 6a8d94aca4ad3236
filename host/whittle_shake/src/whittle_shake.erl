%% @doc Keeps only the functions that a program can reach, each with a reason.
%%
%% {@link plan/2} decides, {@link cut/2} does it. docs/shaking.md says how it is decided.
-module(whittle_shake).

-export([plan/2, cut/2]).

-export_type([plan/0, options/0]).

-type options() ::
        #{preloaded := #{module() => binary()},     % the VM's own modules
          on => [whittle_shake_feature:name()]}.    % features, in any case

-type plan() ::
        #{reached := whittle_shake_reach:reached(),
          answers := [{mfa(), whittle_shake_feature:answer()}], % in the place of what is cut
          values := #{module() => whittle_beam_module:t()},
          sizes := #{mfa() => non_neg_integer()}}.

%% @doc What stays.
-spec plan(whittle_system:system(), options()) ->
          {ok, plan()} | {error, whittle_system:error()}.
plan(System, #{preloaded := Preloaded} = Options) ->
    case whittle_pass_strip:read_all(System) of
        {ok, Beams} -> {ok, plan(System, Beams, maps:to_list(Preloaded), Options)};
        {error, _} = Error -> Error
    end.

plan(System, Beams, Preloaded, Options) ->
    Own = [{M, value(Beam)} || {_, M, Beam} <- Beams],
    Vm = [{M, value(read(Bytes))} || {M, Bytes} <- Preloaded],
    Summaries = maps:from_list([{M, whittle_shake_summary:module(Value)}
                                || {M, Value} <- Own ++ Vm]),
    Features = whittle_shake_feature:standard(),
    Reached = whittle_shake_reach:reach(
                #{modules => Summaries,
                  program => program(System),
                  calls => whittle_shake_roots:calls(System, Summaries),
                  traps => whittle_shake_roots:traps(),
                  atoms => whittle_shake_roots:atoms(System),
                  features => Features,
                  on => on(System, Features, Options)}),
    #{blocked := Blocked} = Reached,
    Asked = [Mfa || Edges <- maps:values(Blocked), {Mfa, _} <- Edges],
    #{reached => Reached,
      answers => whittle_shake_feature:answers(Asked, Features),
      values => maps:from_list(Own),
      sizes => maps:from_list([{{M, F, A}, Bytes}
                               || {M, #{functions := Functions}} <- maps:to_list(Summaries),
                                  {{F, A}, #{bytes := Bytes}} <- maps:to_list(Functions)])}.

%% @doc The system with nothing else in its modules. A module without a function goes.
-spec cut(plan(), whittle_system:system()) -> whittle_system:system().
cut(#{reached := #{live := Live}, answers := Answers, values := Values}, System) ->
    Keep = lists:foldl(fun({M, F, A}, Map) ->
                               maps:update_with(M, fun(Fs) -> Fs#{{F, A} => []} end,
                                                #{{F, A} => []}, Map)
                       end, #{}, maps:keys(Live)),
    Stubs = lists:foldl(fun({{M, F, A}, Answer}, Map) ->
                                maps:update_with(M, fun(L) -> [{F, A, Answer} | L] end,
                                                 [{F, A, Answer}], Map)
                        end, #{}, Answers),
    lists:foldl(fun(#{modules := Modules} = App, Now) ->
                        Left = maps:from_list(
                                 [{M, Bytes}
                                  || M <- maps:keys(Modules),
                                     {ok, Bytes} <- [whittle_shake_cut:module(
                                                       maps:get(M, Values),
                                                       maps:get(M, Keep, #{}),
                                                       maps:get(M, Stubs, []))]]),
                        whittle_system:put_app(App#{modules := Left}, Now)
                end, System, whittle_system:apps(System)).

%% Internal

on(System, Features, Options) ->
    Files = [unicode:characters_to_list(filename:basename(Path))
             || Path <- maps:keys(whittle_system:files(System))],
    [{Name, {root, "--feature"}} || Name <- maps:get(on, Options, [])]
        ++ [{Name, {root, Word}}
            || {Name, Word} <- whittle_shake_feature:asked_for(
                                 whittle_shake_roots:flags(System), Files, Features)].

%% All but OTP's kernel and stdlib, and what Whittle adds.
program(System) ->
    maps:from_list([{M, []} || #{name := Name, modules := Modules, origin := #{kind := Kind}}
                                   <- whittle_system:apps(System),
                               Kind =/= device, Name =/= kernel, Name =/= stdlib,
                               M <- maps:keys(Modules)]).

read(Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    Beam.

value(Beam) ->
    {ok, Value} = whittle_beam:disassemble(Beam),
    Value.
