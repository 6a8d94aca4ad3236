%% @doc A pass: a function from system to system that makes it smaller and says
%% in the ledger what it saved.
%%
%% To add one, write a module with this behaviour and put it into {@link whole/0} or
%% {@link within/0} where it belongs: what removes much comes before what
%% looks at everything. A pass takes what it needs to know from its options, a
%% map with a key for each pass that has choices; it notes ({@link
%% whittle_system:note/2}) what a person should know and could not guess from
%% the figures. It writes no ledger entry and no boot script: {@link run/3} does
%% after each.
-module(whittle_pass).

-export([standard/0, whole/0, within/0, run/3]).

-export_type([options/0]).

-type options() ::
        #{strip => whittle_pass_strip:options(),
          includes => keep | auto,          % whittle_pass_files; default: auto
          shake => term()}.                 % the plan that whittle_pass_shake carries out

%% The name, as the ledger shows it.
-callback name() -> atom().
%% One sentence for a person.
-callback doc() -> string().
%% The pass.
-callback run(whittle_system:system(), options()) ->
    {ok, whittle_system:system()} | {error, whittle_system:error()}.

%% @doc The passes of an ordinary build, in order.
-spec standard() -> [module()].
standard() -> whole() ++ within().

%% @doc Those that take out whole applications, modules and files. What decides on
%% functions (`whittle_pass_shake', of another room) follows them.
-spec whole() -> [module()].
whole() -> [whittle_pass_applications, whittle_pass_modules, whittle_pass_files].

%% @doc Those that make smaller what has stayed.
-spec within() -> [module()].
within() -> [whittle_pass_strip, whittle_pass_literals].

%% @doc Runs passes one after the other; the first error ends it.
-spec run([module()], options(), whittle_system:system()) ->
          {ok, whittle_system:system()} | {error, whittle_system:error()}.
run([Pass | Rest], Options, System) ->
    case Pass:run(System, Options) of
        {ok, Smaller} ->
            Fresh = whittle_boot:refresh(Smaller),
            Before = whittle_system:sizes(System),
            run(Rest, Options, whittle_system:enter(Pass:name(), Pass:doc(), Before, Fresh));
        {error, _} = Error -> Error
    end;
run([], _, System) ->
    {ok, System}.
