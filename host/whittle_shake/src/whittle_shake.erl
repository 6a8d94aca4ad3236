%% @doc Keeps only the functions that a program can reach.
%%
%% Each kept function is hot: the VM has it when it starts. Each has a recorded reason. The other
%% functions are cold (the VM loads them when they are called) or removed.
%%
%% {@link plan/2} decides, {@link carry_out/2} applies the decision, and {@link
%% whittle_shake_saved} explains it. docs/shaking.md describes the decision.
-module(whittle_shake).

-import(whittle_shake_cut, [taken_apart/1]).
-import(whittle_shake_name, [origin/1]).
-import(whittle_work, [steps/1]).

-export([facts/2, plan/2, carry_out/2, vm_cut/2]).
-export([turned_on/2, notes/1, load_notes/3, unread_notes/2, open_calls/1, warnings/1,
         features/0, needed/1, kinds/0, means/1]).
-export([format_error/1, details/1]).

-export_type([plan/0, options/0, facts/0, declared/0, vm_cut/0, error/0]).

%% The number of paths or variables in a note.
-define(SHOWN_NAMES, 5).

%% The most modules in a message about functions that make a dynamic call.
-define(SHOWN_MODULES, 20).

-type options() ::
        #{facts := facts(),                         % of the same system
          unit := modules | functions,              % the unit that is kept or cut
          missing => load | crash,                  % the fate of the rest; default: load
          vm => whole | program,                    % program: shake ERTS too; default: whole
          on => [whittle_shake_feature:name()],     % features to turn on always; default: none
          off => [whittle_shake_feature:name()],    % features to refuse where they are called
          seen_on => [whittle_shake_feature:name()], % features that the recording turns on
          keep => [whittle_shake_name:name()],      % names to keep as well; default: none
          called => [mfa()],                        % functions that a run called; default: none
          %% for `load': keep only these hot; default: keep all reached functions hot
          only => [mfa()],
          evidence => whittle_shake_evidence:evidence(), % of a run; default: none
          seen => refuse | keep | only,             % how to treat its functions; with `evidence'
          declared => #{whittle_shake_dynamic:kind() => declared()}}. % dynamic calls; default: none

%% The facts about each module by itself. They do not hold the parsed modules, which take some
%% hundred megabytes for a thousand modules. Parsing a module again is cheaper than copying it
%% from the process that parsed it.
-opaque facts() :: #{module() => whittle_shake_summary:summary()}.

%% The functions that dynamic calls may call. They are names of functions for `atoms' too. The
%% name of a module stands for all its exports.
-type declared() :: [whittle_shake_name:name()].

-type plan() ::
        #{input := whittle_shake_reach:input(),     % the input of the search
          reached := whittle_shake_reach:reached(),
          missing := load | crash,
          vm := whole | program,
          only := boolean(),                        % keeps hot only the functions that a run called
          hot := #{mfa() => []},                    % functions that stay hot
          open := [open_call()],                    % dynamic calls that nobody declared
          asked_off := [whittle_shake_feature:name()], % features that options turn off
          asked_in_vain := [whittle_shake_feature:name()], % parts of ERTS, which stays whole
          answers := [{mfa(), whittle_shake_feature:answer()}], % the replacements of cut functions
          %% modules that the program recompiles while it runs, kept whole
          anew => [module()],
          vms => {Counted :: pos_integer(), All :: pos_integer()}, % of the recording
          recorded => {Functions :: non_neg_integer(), OfTheBuild :: non_neg_integer()},
          summaries := #{module() => whittle_shake_summary:summary()}}.

-type vm_cut() :: whittle_shake_vm:cut().

-type open_call() :: {whittle_shake_dynamic:kind(), [mfa() | {root, unicode:chardata()}]}.

-type error() ::
        whittle_system:error()
      | {too_many_names | too_many_aliases, {whittle_system:path(), Limit :: pos_integer()}}
      %% The place of the name, and the hint after it
      | {not_there, {unicode:chardata(), whittle_shake_name:name(), unicode:chardata()}}
      | {feature_called, {whittle_shake_feature:name(), mfa() | {root, unicode:chardata()},
                          mfa() | module() | none}}
      | {open_calls, [open_call()]}
      | {unplanned, [whittle_shake_unplanned:unplanned()]}
      | whittle_shake_evidence:error().

%% @doc Collects the facts about a system that every plan needs. A caller that makes several plans
%% collects them once. The error `bad_beam' names the first module that cannot be read.
-spec facts(whittle_system:system(), Preloaded :: #{module() => binary()}) ->
          {ok, facts()} | {error, whittle_system:error()}.
facts(System, Preloaded) ->
    steps([fun(_) -> whittle_modules:try_each(fun(_, M, Beam) -> fact(M, Beam) end, System) end,
           fun(Own) ->
                   Vm = whittle_work:map(fun preloaded/1, maps:to_list(Preloaded)),
                   case [Error || {error, _} = Error <- Vm] of
                       [Error | _] -> Error;
                       [] -> {ok, maps:from_list(Own ++ [Fact || {ok, Fact} <- Vm])}
                   end
           end]).

preloaded({M, Bytes}) ->
    case steps([fun(_) -> whittle_beam:read(Bytes) end, fun(Beam) -> fact(M, Beam) end]) of
        {ok, _} = Ok -> Ok;
        {error, Error} -> {error, {bad_beam, {io_lib:format("module ~ts of the VM", [M]), Error}}}
    end.

%% The summary has the literals that the code mentions. whittle_boot:atoms/1 needs all of them.
fact(M, Beam) ->
    steps([fun(_) -> whittle_beam:all_atoms(Beam) end,
           fun(_) -> whittle_beam:disassemble(Beam) end,
           fun whittle_shake_summary:module/1,
           fun(Summary) -> {ok, {M, Summary}} end]).

%% @doc Decides which functions stay. Errors: a packed file has more names than this VM has room
%% for (`too_many_names'); a name matches nothing (`not_there'); the program calls a feature that
%% is off (`feature_called'); nobody declared a dynamic call, and the rest is to be removed
%% (`open_calls'); the recording belongs to another build or another program; the plan would cut
%% functions of the recording, and `seen' does not keep them (`unplanned').
-spec plan(whittle_system:system(), options()) -> {ok, plan()} | {error, error()}.
plan(System, #{facts := Facts} = Given) ->
    #{vm := Vm} = Options = maps:merge(#{missing => load, vm => whole}, Given),
    Summaries = maps:map(fun(M, Summary) -> in_units(M, Summary, Options) end, of_vm(Vm, Facts)),
    %% Names in such a file may be names of functions. So the plan cannot skip the file.
    steps([fun(_) -> whittle_shake_data:check_texts(System) end,
           fun(_) -> plan(System, Options, Summaries) end]).

of_vm(whole, Facts) -> Facts;
of_vm(program, Facts) -> whittle_shake_vm:without_starts(Facts).

plan(System, #{evidence := Evidence} = Options, Summaries) ->
    steps([fun(_) -> whittle_shake_evidence:of_system(Evidence, System) end,
           fun(Found) -> with_evidence(Found, System, Options, Summaries) end]);
plan(System, Options, Summaries) ->
    decide(System, Options, Summaries).

%% A module that the program recompiles stays whole, because the recording has another version of
%% it.
with_evidence(#{seen := Seen, anew := Anew, counted := Counted, passed := Passed}, System,
              #{evidence := Evidence} = Options, Summaries) ->
    {Recorded, _} = whittle_shake_evidence:size(Evidence),
    Whole = [Mfa || M <- Anew, Mfa <- whittle_shake_name:find({M}, Summaries)],
    steps([fun(_) -> with(Seen, System, called(Whole, Options), Summaries) end,
           fun(Plan) -> {ok, Plan#{vms => {Counted, Counted + Passed}, anew => Anew,
                                   recorded => {Recorded, length(Seen)}}}
           end]).

%% @doc Applies a plan to a system. With `crash', it removes the functions that are not hot, and
%% the modules without a function. With `load', it makes these functions cold: it puts them into
%% companions of the modules ({@link whittle_shake_companion}), or leaves the modules unchanged.
-spec carry_out(plan(), whittle_system:system()) -> whittle_system:system().
carry_out(#{missing := Missing, hot := Hot, answers := Answers} = Plan, System) ->
    Keep = maps:groups_from_list(fun({M, _, _}) -> M end, fun({_, F, A}) -> {F, A} end,
                                 maps:keys(Hot)),
    Stubs = maps:groups_from_list(fun({{M, _, _}, _}) -> M end,
                                  fun({{_, F, A}, Answer}) -> {F, A, Answer} end, Answers),
    Done = maps:from_list(
             whittle_work:map(
               fun({M, Bytes, Kept, Answering}) ->
                       {M, less(Missing, {M, Bytes}, maps:from_keys(Kept, []), Answering)}
               end, [{M, Bytes, maps:get(M, Keep, []), maps:get(M, Stubs, [])}
                     || {_, M, Bytes} <- whittle_system:modules(System)])),
    {Less, Cold} = lists:foldl(
                     fun(#{modules := Modules} = App, {Now, Before}) ->
                             {Parts, Late} = lists:unzip([parts(M, Bytes, maps:get(M, Done))
                                                          || {M, Bytes} <- maps:to_list(Modules)]),
                             Left = maps:from_list(lists:append(Parts)),
                             {whittle_system:put_app(without_gone(App, App#{modules := Left}), Now),
                              lists:append(Late) ++ Before}
                     end, {System, []}, whittle_system:apps(System)),
    with_missing(Plan, System, whittle_system:set_cold(Cold, Less)).

%% @doc Returns the parts of ERTS that a plan with `vm => program' leaves without a caller.
%% `Preloaded' are the modules that the plan's facts are about too.
-spec vm_cut(plan(), Preloaded :: #{module() => binary()}) -> vm_cut().
vm_cut(#{vm := program} = Plan, Preloaded) -> whittle_shake_vm:cut(Plan, Preloaded).

%% The specification of an application no longer lists the removed modules. Programs read this
%% list and look for each file.
without_gone(#{modules := Before}, #{modules := Left, spec := {application, Name, Keys}} = App) ->
    Gone = maps:without(maps:keys(Left), Before),
    Fewer = [case Key of
                 {modules, Listed} -> {modules, [M || M <- Listed, not is_map_key(M, Gone)]};
                 _ -> Key
             end || Key <- Keys],
    App#{spec := {application, Name, Fewer}}.

less(crash, _, Kept, []) when map_size(Kept) =:= 0 -> none;
less(load, {error_handler, Bytes}, Kept, _) ->
    %% The file of this module must change, even where splitting the module saves nothing.
    {ok, Watching} = whittle_shake_watch:watching(taken_apart(Bytes)),
    case map_size(Kept) =:= 0 orelse whittle_shake_companion:split(Watching, Kept) of
        true -> {cold, assembled(Watching)};
        whole -> {ok, assembled(Watching)};
        Parts -> Parts
    end;
less(load, _, Kept, _) when map_size(Kept) =:= 0 -> cold;
less(load, {_, Bytes}, Kept, _) -> whittle_shake_companion:split(taken_apart(Bytes), Kept);
less(crash, {error_handler, Bytes}, Kept, Answering) ->
    whittle_shake_cut:module(whittle_shake_watch:explaining(taken_apart(Bytes)), Kept, Answering);
less(crash, {_, Bytes}, Kept, Answering) ->
    whittle_shake_cut:module(taken_apart(Bytes), Kept, Answering).

assembled(Value) ->
    {ok, Bytes} = whittle_beam:assemble(#{}, Value),
    Bytes.

%% The start passes the names of the modules that are cold as a whole to the code that reports a
%% cold call. The start also creates the atoms of cold modules. A stock release loads all its
%% modules when it starts, so a program that asks whether an atom exists must find these atoms
%% too. If the rest is removed, the start passes the removed names to the code that raises
%% `undef'.
with_missing(#{missing := load, reached := #{program := Program}, summaries := Summaries}, _,
             System) ->
    Watched = whittle_boot:watch_cold(System),
    case whittle_shake_dynamic:asks_for_atoms(Program, Summaries) of
        true -> whittle_boot:make_atoms(Watched);
        false -> Watched
    end;
with_missing(#{missing := crash} = Plan, Before, System) ->
    Names = whittle_shake_removed:names(Plan, Before, System),
    whittle_system:set_removed(whittle_shake_removed:set(Names), System).

%% Returns the modules that replace a module, and the cold ones among them.
parts(_, _, none) -> {[], []};
parts(M, Bytes, cold) -> {[{M, Bytes}], [M]};
parts(M, Bytes, whole) -> {[{M, Bytes}], []};
parts(M, _, {cold, Bytes}) -> {[{M, Bytes}], [M]};
parts(M, _, {ok, Less}) -> {[{M, Less}], []};
parts(M, _, {Hot, Cold}) ->
    Companion = whittle_system:companion(M),
    {[{M, Hot}, {Companion, Cold}], [Companion]}.

%% @doc Tells whether a feature is on in a plan, and for a person, because of what.
-spec turned_on(whittle_shake_feature:name(), plan()) -> {true, unicode:chardata()} | false.
turned_on(Name, #{reached := #{on := On}}) ->
    case On of
        #{Name := {Origin, _}} -> {true, origin(Origin)};
        #{} -> false
    end.

%% @doc Lists the features that were cut, and the functions that turned features on, for a person.
-spec notes(plan()) -> [unicode:chardata()].
notes(#{missing := Missing, reached := #{on := On, blocked := Blocked},
        asked_in_vain := InVain} = Plan) ->
    Off = [atom_to_list(Name) || Name <- lists:sort(maps:keys(Blocked))],
    Are = case Missing of
              crash -> "features that are off: ";
              load -> "features whose code the VM loads only when something calls it: "
          end,
    [[Are, lists:join(", ", Off)] || Off =/= []]
        ++ [["feature ", atom_to_list(Name), " is a part of the VM, which is whole here: --feature "
             "has no effect on it without --vm program"] || Name <- InVain]
        ++ [["the program asks which functions or modules exist (", listed(Asking), "): the "
             "answers do not contain removed functions; if they must contain some, name these with "
             "--keep FILE"]
            || Missing =:= crash, Asking <- [asking(Plan)], Asking =/= []]
        ++ [["feature ", atom_to_list(Name), " is on because of ", origin(Origin)]
            || {Name, {Origin, _}} <- lists:sort(maps:to_list(On))]
        ++ [io_lib:format("the recording has ~ts functions; ~ts of them belong to modules of the "
                          "build", [whittle_number:text(All), whittle_number:text(Here)])
            || #{recorded := {All, Here}} <- [Plan]]
        ++ [["the recording has another version of ",
             lists:join(", ", [whittle_shake_name:text({M}) || M <- Anew]),
             ": the program recompiled it during the run, or you changed it after the run; the "
             "build keeps all of its functions"]
            || #{anew := [_ | _] = Anew} <- [Plan]]
        ++ [io_lib:format("the recording has ~b VMs, and the build uses ~b of them: the others did "
                          "not run the program, or ran another OTP", [All, Counted])
            || #{vms := {Counted, All}} <- [Plan], Counted =/= All].

%% @doc Describes the cost of keeping the cold part, for a person. The plan was carried out on the
%% first system and gave the second. The cost is highest where most of the program is hot. The
%% list is empty where the rest is removed, or where only the functions that a run called are hot.
-spec load_notes(plan(), Before :: whittle_system:system(), After :: whittle_system:system()) ->
          [unicode:chardata()].
load_notes(#{missing := load, only := false}, Before, After) ->
    Cold = whittle_system:cold(After),
    Whole = lists:sum([Size || {_, Size} <- stripped_sizes(Before)]),
    {Late, Hot} = lists:partition(fun({M, _}) -> is_map_key(M, Cold) end, stripped_sizes(After)),
    [HotBytes, ColdBytes] = [lists:sum([Size || {_, Size} <- Part]) || Part <- [Hot, Late]],
    [["shaking made the modules ", whittle_number:text(HotBytes + ColdBytes - Whole),
      " bytes larger: ", whittle_number:text(HotBytes), " bytes are hot, and the VM loads the "
      "other ", whittle_number:text(ColdBytes), " bytes only when something calls them (without "
      "debug information, before compression)",
      [["; the start also creates ", whittle_number:text(length(Names)), " atoms, because the "
        "program asks whether an atom exists"] || {ok, Names} <- [whittle_boot:atoms(After)]],
      "; to save memory, record a run with `whittle trace`, and build with --evidence FILE --seen "
      "only"]
     || HotBytes + ColdBytes > Whole];
load_notes(_, _, _) ->
    [].

%% @doc Lists, for a person, the data that Whittle did not search for names of functions: packed
%% archives, and with `--missing crash' the values of variables in `sys.config.src'.
-spec unread_notes(plan(), whittle_system:system()) -> [unicode:chardata()].
unread_notes(#{missing := Missing}, System) ->
    Paths = whittle_shake_data:unread(System),
    Variables = [Name || Missing =:= crash, Name <- whittle_shake_roots:variables(System)],
    [["Whittle did not search these archives, compressed files and large terms for names of "
      "functions: ", shown(Paths),
      "; if the program calls functions that only these files name, name the functions with "
      "--keep FILE"]
     || Paths =/= []]
        ++ [["sys.config.src gets terms from these variables at each start: ", shown(Variables),
             "; if their values name functions that nothing else names, --missing crash removes "
             "the functions: name them with --keep FILE"]
            || Variables =/= []].

shown(Names) ->
    [lists:join(", ", lists:sublist(Names, ?SHOWN_NAMES)),
     [[" and ", whittle_number:text(length(Names) - ?SHOWN_NAMES), " more"]
      || length(Names) > ?SHOWN_NAMES]].

%% @doc Lists the dynamic calls that nobody declared, and their effect, for a person.
-spec open_calls(plan()) -> [unicode:chardata()].
open_calls(#{open := Calls}) ->
    [[open_call(Open), "; the VM loads such functions when something calls them"] || Open <- Calls].

%% @doc Lists what the program stops doing although nobody asked for it, for a person. A feature
%% that an option turns off has no line.
-spec warnings(plan()) -> [unicode:chardata()].
warnings(#{missing := crash, reached := #{blocked := #{control := _}}, asked_off := Off}) ->
    [["--missing crash removes --whittle-ping, --whittle-pid, --whittle-stop, --whittle-eval, "
      "--whittle-rpc and --whittle-remote: build with --feature +control to keep them "
      "(--whittle-eval also needs +eval, and --whittle-remote +eval,+shell), or with "
      "--feature -control to silence this note"]
     || not lists:member(control, Off)];
warnings(#{missing := crash, hot := #{{whittle_control, main, 0} := _} = Hot, asked_off := Off})
  when not is_map_key({erl_eval, exprs, 2}, Hot) ->
    [["--missing crash removes --whittle-eval and --whittle-remote: build with --feature +eval to "
      "keep --whittle-eval, with --feature +eval,+shell to keep both, or with --feature -eval to "
      "silence this note"]
     || not lists:member(eval, Off)];
warnings(_) ->
    [].

%% @doc Lists the features that a feature needs, and those that these need.
-spec needed(whittle_shake_feature:name()) -> [whittle_shake_feature:name()].
needed(Name) ->
    Features = whittle_shake_feature:standard(program),
    needed(whittle_shake_feature:needs(Name, Features), Features, []).

needed([Name | Names], Features, Found) ->
    case lists:member(Name, Found) of
        true -> needed(Names, Features, Found);
        false -> needed(whittle_shake_feature:needs(Name, Features) ++ Names, Features,
                        [Name | Found])
    end;
needed([], _, Found) -> lists:sort(Found).

%% @doc Lists the kinds of dynamic calls.
-spec kinds() -> [whittle_shake_dynamic:kind(), ...].
kinds() -> whittle_shake_dynamic:kinds().

%% @doc Describes which functions a kind of dynamic call may call.
-spec means(whittle_shake_dynamic:kind()) -> string().
means(Kind) -> whittle_shake_dynamic:means(Kind).

%% @doc Lists the features, each with its meaning.
-spec features() -> [{whittle_shake_feature:name(), string()}].
features() ->
    Features = whittle_shake_feature:standard(program),
    [{Name, whittle_shake_feature:means(Name, Features)}
     || Name <- whittle_shake_feature:names(Features)].

%% @doc Describes an error in one line. The line ends with what to do.
-spec format_error(error()) -> unicode:chardata().
format_error({too_many_names, {Path, Limit}}) ->
    ["the packed file ", Path, $\s, whittle_bounded:too_many_atoms(Limit)];
format_error({too_many_aliases, {Path, Limit}}) ->
    ["the names in the packed file ", Path, " mean more than ", whittle_number:text(Limit),
     " modules, because they have many aliases: divide the file, or write names without `alias'"];
format_error({not_there, {Where, Name, Hint}}) ->
    ["there is no ", case Name of {_} -> "module"; _ -> "function" end, $\s,
     whittle_shake_name:text(Name), Hint, ", which ", Where,
     " names: correct the name"];
format_error({feature_called, {Feature, Origin, What}}) ->
    ["the feature ", atom_to_list(Feature), " cannot be off: ", origin(Origin), " uses it",
     [[" (", what(What), ")"] || What =/= none], "; remove -", atom_to_list(Feature),
     " from --feature"];
format_error({open_calls, [{Kind, _} = Open]}) ->
    ["the build cannot tell which functions to keep, because ", open_call(Open),
     ": name them with ", whittle_shake_dynamic:declaration(Kind), " M[:F[/A]],..., or give ",
     whittle_shake_dynamic:declaration(Kind), " none if there are none"];
format_error({open_calls, Open}) ->
    ["the build cannot tell which functions these calls need: give",
     [[" ", whittle_shake_dynamic:declaration(Kind), " none"] || {Kind, _} <- Open],
     " if they need none, or name the functions as M[:F[/A]],... instead of `none'"];
format_error({unplanned, Unplanned}) ->
    ["the build would remove ", functions(length(Unplanned)), " that the recorded run called: keep "
     "all of them with --seen keep, or name each one with --keep FILE or turn its feature on or "
     "off with --feature"];
format_error(Error) ->
    whittle_shake_evidence:format_error(Error).

%% @doc Lists the details of an error. The caller prints them above the line of `format_error/1'.
-spec details(error()) -> [unicode:chardata()].
details({unplanned, Unplanned}) -> lists:map(fun whittle_shake_unplanned:text/1, Unplanned);
details({open_calls, [_, _ | _] = Open}) -> lists:map(fun open_call/1, Open);
details(_) -> [].

%% Internal

%% Computes the bytes of each module's file without debug information.
stripped_sizes(System) ->
    whittle_work:map(fun({_, M, Bytes}) ->
                             {ok, Beam} = whittle_beam:read(Bytes),
                             {M, byte_size(whittle_beam:strip(#{types => drop}, Beam))}
                     end, whittle_system:modules(System)).

functions(1) -> "1 function";
functions(Count) -> [whittle_number:text(Count), " functions"].

asking(#{reached := Reached, summaries := Summaries}) ->
    whittle_shake_dynamic:asks_about_modules(Reached, Summaries).

open_call({Kind, Who}) -> [whittle_shake_dynamic:means(Kind), " (", listed(Who), ")"].

%% Shows three functions, and the modules of the others that these three do not show.
listed(Who) when length(Who) =< 3 -> lists:join(", ", [origin(Each) || Each <- Who]);
listed(Who) ->
    {First, Rest} = lists:split(3, Who),
    [listed(First), io_lib:format(" and ~b more", [length(Rest)]),
     in_modules(lists:uniq([M || {M, _, _} <- Rest]) -- [M || {M, _, _} <- First])].

in_modules([]) -> [];
in_modules(Modules) ->
    {Shown, Hidden} = lists:split(min(?SHOWN_MODULES, length(Modules)), Modules),
    [", also in ", lists:join(", ", lists:map(fun atom_to_list/1, Shown)),
     [io_lib:format(" and ~b more", [length(Hidden)]) || Hidden =/= []]].

%% A function that is loaded when it is called need only be present. So the plan keeps only the
%% recorded functions hot.
with(Seen, System, #{missing := load, seen := keep} = Options, Summaries) ->
    decide(System, called(Seen, Options), Summaries);
with(Seen, System, #{missing := load, seen := only} = Options, Summaries) ->
    #{called := Called} = More = called(Seen, Options),
    decide(System, More#{only => Called}, Summaries);
with(Seen, System, Options, Summaries) ->
    steps([fun(_) -> decide(System, Options, Summaries) end,
           fun(Plan) -> checked(Seen, Plan, System, Options) end]).

checked(Seen, #{summaries := Summaries, vm := Vm} = Plan, System, #{seen := What} = Options) ->
    Doing = #{features => whittle_shake_feature:standard(Vm), off => maps:get(off, Options, [])},
    case {whittle_shake_unplanned:unplanned(Seen, Doing, Plan), What} of
        {[], _} -> {ok, Plan};
        {Unplanned, refuse} -> {error, {unplanned, Unplanned}};
        {Unplanned, keep} ->
            On = maps:get(seen_on, Options, []) ++ [Name || {_, {feature, Name}} <- Unplanned],
            More = called([Mfa || {Mfa, _} <- Unplanned], Options#{seen_on => lists:usort(On)}),
            steps([fun(_) -> decide(System, More, Summaries) end,
                   fun(Next) -> checked(Seen, Next, System, More) end])
    end.

called(Mfas, Options) -> Options#{called => maps:get(called, Options, []) ++ Mfas}.

decide(System, Options, Summaries) ->
    Named = [{"--keep", Name} || Name <- maps:get(keep, Options, [])]
        ++ [{whittle_shake_roots:recording(), Mfa} || Mfa <- maps:get(called, Options, [])]
        ++ [{whittle_shake_dynamic:declaration(Kind), Name}
            || {Kind, Names} <- lists:sort(maps:to_list(maps:get(declared, Options, #{}))),
               Name <- Names],
    Found = [{Where, Name, whittle_shake_name:find(Name, Summaries)} || {Where, Name} <- Named],
    case [{Where, Name} || {Where, Name, []} <- Found] of
        [{Where, Name} | _] ->
            Known = maps:map(fun(_, #{functions := Functions}) -> maps:keys(Functions) end,
                             Summaries),
            {error, {not_there, {Where, Name, whittle_shake_name:hint(Name, Known)}}};
        [] -> reach(System, Options, [{Mfa, {root, Where}} || {Where, _, Mfas} <- Found,
                                                              Mfa <- Mfas], Summaries)
    end.

reach(System, Options, Kept, Summaries) ->
    #{missing := Missing, vm := Vm} = Options,
    Features = whittle_shake_feature:standard(Vm),
    Names = whittle_shake_source:names(System),
    Atoms = whittle_shake_roots:atoms(System, Names),
    NamedCalls = whittle_shake_roots:named_calls(System, Names, Summaries),
    Program = program(System),
    Input = #{modules => Summaries,
              program => Program,
              own => maps:with(own(System), Program),
              data => whittle_shake_data:data(System, Summaries),
              lists => whittle_shake_data:lists(System, Program, Summaries),
              calls => whittle_shake_roots:calls(System, Summaries, {Missing, Vm}) ++ NamedCalls,
              kept => Kept,
              answered => Missing =:= crash,
              traps => maps:merge(whittle_shake_roots:traps(Vm),
                                  whittle_shake_source:headers(System, Summaries)),
              atoms => Atoms ++ [{M, Origin} || {{M, _, _}, Origin} <- Kept],
              made => whittle_shake_roots:made(),
              known => whittle_shake_known:new(System, maps:keys(Summaries)),
              features => Features,
              on => on(System, Atoms ++ NamedCalls, Features, Options)
                  ++ started(Missing, Features, Options),
              off => maps:get(off, Options, [])},
    Reached = whittle_shake_reach:reach(Input),
    #{blocked := Blocked, refused := Refused} = Reached,
    Asked = [Mfa || Edges <- maps:values(Blocked), {Mfa, _} <- Edges],
    Undeclared = [Open || {Kind, _} = Open <- whittle_shake_dynamic:open(Reached, Summaries),
                          not is_map_key(Kind, maps:get(declared, Options, #{}))],
    case {Refused, Undeclared} of
        {[{Feature, Origin, What} | _], _} ->
            {error, {feature_called, {Feature, asked_by(Feature, Origin, Options), What}}};
        {[], [_ | _]} when Missing =:= crash -> {error, {open_calls, Undeclared}};
        {[], _} ->
            {ok, #{input => Input, reached => Reached, missing => Missing, vm => Vm,
                   only => is_map_key(only, Options), open => Undeclared,
                   asked_off => maps:get(off, Options, []),
                   asked_in_vain => lists:usort(maps:get(on, Options, [])
                                                ++ maps:get(off, Options, []))
                       -- whittle_shake_feature:names(Features),
                   summaries => Summaries, hot => hot(Options, Kept, Reached, System, Summaries),
                   answers => case Missing of
                                  crash -> whittle_shake_feature:answers(Asked, Features);
                                  load -> []
                              end}}
    end.

%% If --feature turns on a feature that needs this one, the text names it.
asked_by(Feature, {root, "--feature"} = Origin, Options) ->
    case [Name || Name <- maps:get(on, Options, []), lists:member(Feature, needed(Name))] of
        [Name | _] -> {root, ["--feature +", atom_to_list(Name)]};
        [] -> Origin
    end;
asked_by(_, Origin, _) -> Origin.

%% The device's modules load the rest, and they run before a recording can start. A module that
%% cannot be split is present as a whole.
hot(#{only := Mfas}, Kept, #{live := Live}, System, Summaries) ->
    Device = maps:from_keys([M || #{modules := Modules, origin := #{kind := device}}
                                      <- whittle_system:apps(System), M <- maps:keys(Modules)], []),
    Hot = Mfas ++ [Mfa || {Mfa, _} <- Kept]
        ++ [Mfa || {M, _, _} = Mfa <- maps:keys(Live), is_map_key(M, Device)],
    Whole = [{M, F, A} || M <- lists:usort([M || {M, _, _} <- Hot]),
                          #{M := #{whole := true, functions := Functions}} <- [Summaries],
                          {F, A} <- maps:keys(Functions)],
    maps:from_keys(Hot ++ Whole, []);
hot(_, _, #{live := Live}, _, _) ->
    maps:map(fun(_, _) -> [] end, Live).

on(System, Named, Features, Options) ->
    Settings = #{flags => whittle_shake_roots:flags(System),
                 files => [unicode:characters_to_list(filename:basename(Path))
                           || Path <- maps:keys(whittle_system:files(System))],
                 config => Named ++ whittle_shake_roots:uses(System)},
    Known = whittle_shake_feature:names(Features),
    %% A whole VM has the features of ERTS.
    [{Name, {root, "--feature"}} || Name <- maps:get(on, Options, []), lists:member(Name, Known)]
        ++ [{Name, {root, whittle_shake_roots:recording()}}
            || Name <- maps:get(seen_on, Options, [])]
        ++ whittle_shake_feature:asked_for(Settings, Features).

%% A system that keeps everything starts as the original system did.
started(crash, _, _) -> [];
started(load, Features, Options) ->
    [{Name, whittle_shake_roots:start()}
     || Name <- whittle_shake_feature:starts(Features) -- maps:get(off, Options, [])].

%% All modules except those of OTP's kernel and stdlib, and those that Whittle adds.
program(System) ->
    maps:from_list([{M, []} || #{name := Name, modules := Modules, origin := #{kind := Kind}}
                                   <- whittle_system:apps(System),
                               Kind =/= device, Name =/= kernel, Name =/= stdlib,
                               M <- maps:keys(Modules)]).

%% Lists the modules of applications that are not OTP's.
own(System) ->
    [M || #{modules := Modules, origin := #{kind := Kind}} <- whittle_system:apps(System),
          Kind =/= otp, M <- maps:keys(Modules)].

in_units(_, Summary, #{unit := modules}) -> Summary#{whole := true};
in_units(M, Summary, #{missing := crash}) -> whittle_shake_summary:apart(M, Summary);
in_units(_, Summary, _) -> Summary.

what({_, _, _} = Mfa) -> whittle_shake_name:text(Mfa);
what(M) -> whittle_shake_name:text({M}).
