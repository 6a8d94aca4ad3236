%% @doc Runs passes. A pass is a function from system to system that makes the system smaller.
%%
%% To add a pass, write a module with this behavior and add it to `whittle_make:passes/1'. A pass
%% reads its settings from the options. It notes ({@link whittle_system:note/2}) the facts that a
%% person needs and that the figures do not show. {@link run/3} adds the entry to the ledger and
%% updates the boot script after each pass.
-module(whittle_pass).

-export([run/3]).
%% For passes
-export([step/3, tell/2]).

-export_type([options/0, reason/0]).

-type options() ::
        #{strip => whittle_pass_strip:options(),
          includes => keep | auto,          % whittle_pass_files; default: auto
          shake => none | #{missing := load | crash, atom() => term()}, % whittle_pass_start, and
                                            % the pass that shakes; default: none
          vm => whole | program,            % whittle_make_shake; default: whole
          otp => whittle_otp_lib:otp_lib(), % whittle_make_shake, whittle_make_tables
          tables => none | map(),           % whittle_make_tables: the options of the cache;
                                            % default: none
          weigh => fun((map(), [term()]) -> {ok, pos_integer()} | {error, term()}),
                                            % whittle_make_prices: links a VM without the parts in
                                            % the map, with natives, and returns its bytes
          tell => fun((event()) -> term())}.

%% The start or the end of a pass or of a step in it; a feature whose price is computed; a note for
%% a person.
-type event() :: {started | ended | pricing, atom()} | {note, unicode:chardata()}.

%% An error with the application that returned it.
-type reason() :: {system, whittle_system:error()} | {shake | runtime, term()}.

%% Returns the name that the ledger shows.
-callback name() -> atom().
%% Describes the pass for a person in one sentence.
-callback doc() -> string().
%% Runs the pass. run/3 returns the result of the pass, if it has one.
-callback run(whittle_system:system(), options()) ->
    {ok, whittle_system:system()} | {ok, whittle_system:system(), Result :: term()}
        | {error, reason()}.

%% A pass without a sentence adds no entry to the ledger.
-optional_callbacks([doc/0]).

%% @doc Runs passes in sequence until one fails. It returns the results of passes by name.
-spec run([module()], options(), whittle_system:system()) ->
          {ok, whittle_system:system(), #{atom() => term()}} | {error, reason()}.
run(Passes, Options, System) -> run(Passes, Options, System, #{}).

run([Pass | Rest], Options, System, Results) ->
    case step(Pass:name(), fun() -> Pass:run(System, Options) end, Options) of
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

%% @doc Calls the function, and tells its start and its end. An error has no end.
-spec step(atom(), fun(() -> Result), options()) -> Result.
step(Name, Fun, Options) ->
    tell({started, Name}, Options),
    Result = Fun(),
    case Result of
        {error, _} -> ok;
        _ -> tell({ended, Name}, Options)
    end,
    Result.

%% @doc Tells an event to the caller of {@link run/3}.
-spec tell(event(), options()) -> ok.
tell(Event, Options) ->
    _ = (maps:get(tell, Options, fun(_) -> ok end))(Event),
    ok.
