%% @doc Runs passes. A pass is a function from system to system that makes the system smaller.
%%
%% To add a pass, write a module with this behavior and add it to `whittle_make:passes/1'. A pass
%% reads its settings from the options. It notes ({@link whittle_system:note/2}) the facts that a
%% person needs and that the figures do not show. {@link run/3} adds the entry to the ledger and
%% updates the boot script after each pass.
-module(whittle_pass).

-export([run/3]).

-export_type([options/0]).

-type options() ::
        #{strip => whittle_pass_strip:options(),
          includes => keep | auto,          % whittle_pass_files; default: auto
          tell => fun(({phase, atom()}) -> term()), % gets each pass's name before it runs
          atom() => term()}.                % of passes in other applications

%% Returns the name that the ledger shows.
-callback name() -> atom().
%% Describes the pass for a person in one sentence.
-callback doc() -> string().
%% Runs the pass. run/3 returns the result of the pass, if it has one.
-callback run(whittle_system:system(), options()) ->
    {ok, whittle_system:system()} | {ok, whittle_system:system(), Result :: term()}
        | {error, term()}.

%% A pass without a sentence adds no entry to the ledger.
-optional_callbacks([doc/0]).

%% @doc Runs passes in sequence until one fails. It returns the results of passes by name.
-spec run([module()], options(), whittle_system:system()) ->
          {ok, whittle_system:system(), #{atom() => term()}} | {error, term()}.
run(Passes, Options, System) -> run(Passes, Options, System, #{}).

run([Pass | Rest], Options, System, Results) ->
    _ = (maps:get(tell, Options, fun(_) -> ok end))({phase, Pass:name()}),
    case Pass:run(System, Options) of
        {ok, Smaller} -> run(Rest, Options, entered(Pass, System, Smaller), Results);
        {ok, Smaller, Result} ->
            run(Rest, Options, entered(Pass, System, Smaller), Results#{Pass:name() => Result});
        {error, _} = Error -> Error
    end;
run([], _, System, Results) ->
    {ok, System, Results}.

entered(Pass, Before, After) ->
    Fresh = whittle_boot:refresh(After),
    case erlang:function_exported(Pass, doc, 0) of
        true -> whittle_system:enter(Pass:name(), Pass:doc(), whittle_system:sizes(Before), Fresh);
        false -> Fresh
    end.
