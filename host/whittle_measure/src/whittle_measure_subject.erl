%% @doc Turns the cells of a study into commands: it builds the outputs, or makes a boot script for
%% the stock `erl' of the same OTP.
%%
%% Cells with the same build share one output.
%% @hidden
-module(whittle_measure_subject).

-import(whittle_work, [steps/1]).

-export([builds/1, build/1, check/2, records/1, prepare/5, name/1, subject/2,
         variables/2]).

-export_type([build/0, prepared/0, shared/0, reason/0]).

%% An output that several cells may share.
-type build() :: #{program := whittle_measure_study:program(),
                   runner := whittle | stock | library,
                   request := map(), form => whittle_measure_library:form(),
                   recording => file:filename()}. % for a build that needs one (records/1)

-type prepared() :: #{program := file:filename(), arguments := [string()],
                      wrapper => [string(), ...],
                      out => file:filename(), size => pos_integer(),
                      vm => {file:filename(), file:filename()}, library => pos_integer(),
                      sha256 => binary()}.

%% The files of the latest library, for the next forms of the same files.
-type shared() :: none | {term(), whittle_measure_library:files()}.

-type reason() :: {make, whittle_make:reason()}
                | {no_program, string()}
                | {library, string(), unicode:chardata()}
                | {no_unit, atom()}
                | {no_directory, atom(), file:filename()}
                | {recording, atom(), unicode:chardata()}
                | whittle_measure_source:error()
                | whittle_measure_stock:error().

%% @doc Lists the different builds of cells. Libraries with the same files follow each other,
%% because prepare/5 shares the files.
-spec builds([whittle_measure_study:cell()]) -> [build()].
builds(Cells) ->
    [Build || {_, Build} <- lists:usort([{files_of(build(Cell)), build(Cell)} || Cell <- Cells])].

files_of(#{runner := library, program := #{name := Name}} = Build) ->
    {Name, whittle_measure_library:request(maps:with([request, form], Build))};
files_of(_) -> none.

%% @doc Returns the build of a cell.
-spec build(whittle_measure_study:cell()) -> build().
build(#{program := Program, levels := Levels}) ->
    Requests = [maps:get(request, Program)
                | [Request || {_, #{request := Request}} <- lists:sort(maps:to_list(Levels))]],
    Build = #{program => Program, request => lists:foldl(fun merged/2, #{}, Requests)},
    case Program of
        #{library := _} ->
            Forms = [Form || {_, #{library := Form}} <- lists:sort(maps:to_list(Levels))],
            Build#{runner => library, form => lists:foldl(fun maps:merge/2, #{}, Forms)};
        _ ->
            Runners = [stock || #{runner := stock} <- maps:values(Levels)],
            Build#{runner => hd(Runners ++ [whittle])}
    end.

%% Two factors may each set a part of `shake'.
merged(New, Old) ->
    maps:merge_with(fun(_, Before, After) when is_map(Before), is_map(After) ->
                            maps:merge(Before, After);
                       (_, _, After) -> After
                    end, Old, New).

%% @doc Finds the mistakes of a build that would stop it, without building anything.
-spec check(build(), file:filename()) -> ok | {error, reason()}.
check(#{program := Program} = Build, Base) ->
    steps([fun(_) -> on_path(maps:get(wrapper, Program, []), Base) end,
           fun(_) -> has_unit(Build) end,
           fun(_) -> has_libs(Build, Base) end,
           fun(_) -> check_program(Build, Base) end]).

on_path([], _) -> ok;
on_path([Name | _], Base) ->
    case os:find_executable(in_base(Name, Base)) of
        false -> {error, {no_program, Name}};
        _ -> ok
    end.

check_program(#{program := #{command := Command}}, Base) -> on_path(Command, Base);
check_program(#{program := #{otp_source := _}, request := Request} = Build, Base) ->
    steps([fun(_) -> whittle_measure_source:check(Build) end,
           fun(_) -> check_request(placed(without_recording(Request), Base)) end]);
check_program(#{program := #{input := Input}, request := Request}, Base) ->
    check_request(placed(without_recording(Request), Input, Base)).

check_request(Request) ->
    case whittle_make:check(Request) of
        ok -> ok;
        {error, Reason} -> {error, {make, Reason}}
    end.

%% The libraries of a build may be missing, as in ERL_LIBS. A study names them for itself.
has_libs(#{program := #{name := Name}, request := #{libs := Libs}}, Base) ->
    case [Lib || Lib <- Libs, not filelib:is_dir(filename:join(Base, Lib))] of
        [] -> ok;
        [First | _] -> {error, {no_directory, Name, First}}
    end;
has_libs(_, _) -> ok.

%% The program and several levels may each give a part of `shake', so only the whole can lack this.
has_unit(#{program := #{name := Name}, request := #{shake := #{} = Shake}})
  when not is_map_key(unit, Shake) -> {error, {no_unit, Name}};
has_unit(_) -> ok.

%% The engine makes the recording later.
without_recording(#{shake := #{seen := _} = Shake} = Request) ->
    case Shake of
        #{evidence_file := _} -> Request;
        #{missing := crash} -> Request;         % a conflict, which whittle_make names
        _ -> Request#{shake := maps:remove(seen, Shake)}
    end;
without_recording(Request) -> Request.

%% @doc Tells whether a build needs a recording that the study does not name.
-spec records(build()) -> boolean().
records(#{runner := whittle, request := #{shake := #{seen := _} = Shake}}) ->
    not is_map_key(evidence_file, Shake);
records(_) -> false.

%% The paths in a request begin at the directory of the study's file.
placed(Request, Input, Base) ->
    (placed(Request, Base))#{input => filename:join(Base, Input)}.

placed(Request, Base) ->
    In = fun(Path) -> filename:join(Base, Path) end,
    maps:map(fun(Key, Paths) when Key =:= libs; Key =:= natives -> lists:map(In, Paths);
                         (Key, Path) when Key =:= ca_certs; Key =:= settings -> In(Path);
                         (shake, Shake) when is_map(Shake) ->
                              maps:map(fun(Key, Path) when Key =:= keep_file;
                                                           Key =:= evidence_file -> In(Path);
                                          (_, Value) -> Value
                                       end, Shake);
                         (_, Value) -> Value
                      end, Request).

%% @doc Makes the program of a build. Inputs are relative to `Base'. Outputs go into `Dir'. `Tell'
%% receives the events of the build. `Shared' comes from the build before.
-spec prepare(build(), file:filename(), file:filename(), fun((whittle_make:event()) -> term()),
              shared()) -> {ok, {prepared(), shared()}} | {error, reason()}.
prepare(#{runner := library} = Build, Base, Dir, Tell, Shared) ->
    steps([fun(_) -> files(Build, Base, Tell, Shared) end,
           fun({_, Files} = New) ->
                   Name = name(Build),
                   case whittle_measure_library:size(maps:get(form, Build), Files,
                                                     filename:join(Dir, Name)) of
                       {ok, #{size := Size, sha256 := Sum}} ->
                           {ok, {#{program => Name, arguments => [], library => Size,
                                   sha256 => Sum}, New}};
                       {error, Line} -> {error, {library, Name, Line}}
                   end
           end]);
prepare(Build, Base, Dir, Tell, _) ->
    case prepare(Build, Base, Dir, Tell) of
        {ok, Prepared} -> {ok, {wrapped(Build, Base, Prepared), none}};
        {error, _} = Error -> Error
    end.

wrapped(#{program := #{wrapper := [Name | Words]}}, Base, Prepared) ->
    Prepared#{wrapper => [in_base(Name, Base) | Words]};
wrapped(_, _, Prepared) -> Prepared.

files(#{program := #{input := Input, library := Names}} = Build, Base, Tell, Shared) ->
    Request = whittle_measure_library:request(maps:with([request, form], Build)),
    case Shared of
        {{Request, Input, Names}, _} -> {ok, Shared};
        _ ->
            Taken = maps:without([target, optimize, format, ca_certs], Request),
            case whittle_make:system((placed(Taken, Input, Base))#{tell => Tell}) of
                {ok, #{system := System}} ->
                    {ok, {{Request, Input, Names}, whittle_measure_library:files(Names, System)}};
                {error, Reason} -> {error, {make, Reason}}
            end
    end.

prepare(#{program := #{command := [Name | Arguments]}}, Base, _, _) ->
    case os:find_executable(in_base(Name, Base)) of
        false -> {error, {no_program, Name}};
        Path -> {ok, #{program => Path, arguments => Arguments}}
    end;
prepare(#{program := #{input := Input} = Program, runner := whittle, request := Request} = Build,
        Base, Dir, Tell) ->
    Out = filename:join(Dir, name(Build)),
    Placed = recorded(Build, placed(Request, Input, Base)),
    case whittle_make:make(Placed#{out => Out, tell => Tell}) of
        {ok, #{size := Size, sha256 := Sum,
               runtime := #{executable := Vm, symbols := Symbols}}} ->
            {ok, #{program => filename:absname(Out), arguments => maps:get(arguments, Program),
                   out => filename:absname(Out), size => Size, sha256 => Sum,
                   vm => {Vm, Symbols}}};
        {error, Reason} ->
            {error, {make, Reason}}
    end;
prepare(#{program := #{input := Input} = Program, runner := stock, request := Request} = Build,
        Base, Dir, Tell) ->
    steps([fun(_) -> system(placed(maps:with([otp, libs, add], Request), Input, Base), Tell) end,
           fun(#{system := System, otp := #{root := Root}}) ->
                   whittle_measure_stock:prepare(System, Root, filename:join(Dir, name(Build)),
                                                 maps:get(arguments, Program))
           end]).

recorded(#{recording := File}, #{shake := Shake} = Request) ->
    Request#{shake := Shake#{evidence_file => filename:absname(File)}};
recorded(_, Request) -> Request.

%% A name with a slash is a path; any other name is on the PATH.
in_base(Name, Base) ->
    case lists:member($/, Name) of
        true -> filename:absname(filename:join(Base, Name));
        false -> Name
    end.

%% @doc Returns the name of a build's output: the program's name and a digest of the build. The
%% study's directory may have another path when the study goes on.
-spec name(build()) -> string().
name(#{program := #{name := Name} = Program} = Build) ->
    Own = case Program of
              #{otp_source := _} -> maps:remove(input, Program);
              _ -> Program
          end,
    Bytes = term_to_binary((maps:remove(recording, Build))#{program := Own},
                           [{minor_version, 2}, deterministic]),
    <<Hash:6/binary, _/binary>> = crypto:hash(sha256, Bytes),
    lists:flatten(io_lib:format("~ts-~s", [Name, binary:encode_hex(Hash)])).

system(Request, Tell) ->
    case whittle_make:system(Request#{passes => [whittle_pass_applications], tell => Tell}) of
        {ok, _} = Ok -> Ok;
        {error, Reason} -> {error, {make, Reason}}
    end.

%% @doc Returns the command of a cell. The flags of its levels go to the VM in `ERL_FLAGS', behind
%% the program's own. If the command has an `-extra', they are in `ERL_AFLAGS', because flags behind
%% it would belong to the program.
-spec subject(whittle_measure_study:cell(), prepared()) ->
          whittle_measure_observe:subject().
subject(#{levels := Levels} = Cell, Prepared) ->
    Sorted = [Level || {_, Level} <- lists:sort(maps:to_list(Levels))],
    Flags = lists:append([Flags || #{flags := Flags} <- Sorted]),
    Environment = environment(Cell)
        ++ [{variable(Prepared), lists:flatten(lists:join($\s, Flags))} || Flags =/= []],
    maps:merge(command(maps:with([program, arguments, wrapper, out], Prepared)),
               #{environment => Environment}).

command(#{wrapper := [Wrapper | Words], program := Program, arguments := Arguments} = Command) ->
    (maps:remove(wrapper, Command))#{program := os:find_executable(Wrapper),
                                     arguments := Words ++ [Program | Arguments]};
command(Command) -> Command.

%% @doc Returns the variables for the workload of a cell: the directory of the study, and what the
%% program and its levels set.
-spec variables(whittle_measure_study:cell(), file:filename()) -> [{string(), string()}].
variables(Cell, Base) -> [{"WHITTLE_BASE", filename:absname(Base)} | environment(Cell)].

%% The variables of a level come last, so they count.
environment(#{program := Program, levels := Levels}) ->
    maps:get(environment, Program, [])
        ++ lists:append([Set || {_, #{environment := Set}} <- lists:sort(maps:to_list(Levels))]).

variable(#{arguments := Arguments}) ->
    case lists:member("-extra", Arguments) of
        true -> "ERL_AFLAGS";
        false -> "ERL_FLAGS"
    end.
