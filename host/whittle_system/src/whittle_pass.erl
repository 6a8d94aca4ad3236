%% @doc Runs passes: functions from system to system that make it smaller.
%%
%% To add a pass, write a module with this behaviour and put it into `whittle_make:passes/1'. A
%% pass reads its choices from the options. It notes ({@link whittle_system:note/2}) facts that a
%% person needs and cannot guess from the figures. {@link run/3} writes the ledger's entry and
%% refreshes the boot script after each pass.
-module(whittle_pass).

-export([run/3]).

-export_type([options/0]).

-type options() ::
        #{strip => whittle_pass_strip:options(),
          includes => keep | auto,          % whittle_pass_files; default: auto
          tell => fun(({phase, atom()}) -> term()), % hears the name of each pass before it runs
          atom() => term()}.                % of passes in other applications

%% The name, as the ledger shows it.
-callback name() -> atom().
%% One sentence for a person.
-callback doc() -> string().
%% The pass. A result of its own is returned by run/3.
-callback run(whittle_system:system(), options()) ->
    {ok, whittle_system:system()} | {ok, whittle_system:system(), Result :: term()}
        | {error, term()}.

%% A pass without a sentence writes no entry into the ledger.
-optional_callbacks([doc/0]).

%% @doc Runs passes one after the other until one fails. Returns the results of passes by name.
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
