%% @doc Reads modules that a scenario names: a client for another protocol, a function that gives
%% users their data, and modules that these call.
%%
%% A file is Erlang source, which this module compiles, or a compiled module. Nothing of it runs
%% here: a client declares its steps, and a data module its columns, in attributes:
%%
%% ```
%% -steps([{ask, [text, text], answer}, {tell, [text]}, {enter, [text], held}]).
%% -columns([user, password]).
%% '''
%% @hidden
-module(whittle_load_own).

-export([client/1, data/1, module/1]).

-export_type([code/0]).

-type code() :: #{module := module(), beam := binary(), exports := [{atom(), arity()}],
                  attributes := [{atom(), term()}]}.

-define(LARGEST, 10_000_000).
-define(CALLBACKS, [{init, 2}, {step, 3}, {data, 2}, {closed, 1}, {match, 2}]).
-define(KINDS, [text, line, count, time]).
%% Steps of all protocols have these names.
-define(TAKEN, [connect, wait, stay, repeat, forever, every, choose, as, disconnect]).

%% @doc Reads a client, and returns the description of its protocol. The error is a line.
-spec client(file:filename()) ->
          {ok, {whittle_load_protocol:protocol(), code()}} | {error, unicode:chardata()}.
client(File) ->
    whittle_work:steps(
      [fun(_) -> module(File) end,
       fun(Code) -> exported(?CALLBACKS, File, Code) end,
       fun(Code) -> attribute(steps, "-steps([{ask, [text, text], answer}]).", File, Code) end,
       fun({Steps, Code}) ->
               case [Step || Step <- Steps, not is_step(Step)] of
                   [] -> {ok, {protocol(Steps, Code), Code}};
                   [Wrong | _] ->
                       {error, io_lib:format(
                                 "~ts: the attribute `steps' contains ~0tP, which has not the form "
                                 "{Name, Kinds}, {Name, Kinds, answer} or {Name, Kinds, held} with "
                                 "the kinds ~ts, or has a name that Whittle uses itself",
                                 [File, Wrong, 9, names(?KINDS)])}
               end
       end]).

%% @doc Reads a module with a function `row/1', and returns the names of its columns.
-spec data(file:filename()) -> {ok, {[string()], code()}} | {error, unicode:chardata()}.
data(File) ->
    whittle_work:steps(
      [fun(_) -> module(File) end,
       fun(Code) -> exported([{row, 1}], File, Code) end,
       fun(Code) -> attribute(columns, "-columns([user, password]).", File, Code) end,
       fun({Columns, Code}) ->
               case {lists:all(fun is_atom/1, Columns), Columns -- lists:usort(Columns)} of
                   {true, []} -> {ok, {[atom_to_list(Column) || Column <- Columns], Code}};
                   {true, [Twice | _]} ->
                       {error, [File, ": the attribute `columns' has `", atom_to_list(Twice),
                                "' twice: rename one"]};
                   {false, _} -> {error, [File, ": the attribute `columns' is a list of atoms"]}
               end
       end]).

%% @doc Reads any module.
-spec module(file:filename()) -> {ok, code()} | {error, unicode:chardata()}.
module(File) ->
    Beam = case filename:extension(File) of
               ".erl" -> compiled(File);
               ".beam" -> compiled_before(File);
               _ ->
                   {error, [File, " is neither Erlang source (.erl) nor a compiled module "
                            "(.beam)"]}
           end,
    case Beam of
        {ok, Bytes} -> code(Bytes, File);
        {error, _} = Error -> Error
    end.

%% Internal functions

compiled_before(File) ->
    case whittle_file:whole(File, ?LARGEST) of
        {ok, <<31, 139, _/binary>> = Gzipped} ->
            case whittle_bounded:inflate(31, Gzipped, ?LARGEST) of
                {ok, _} = Ok -> Ok;
                {error, Why} -> {error, no_module(File, {damaged, {file, Why}})}
            end;
        {ok, _} = Ok -> Ok;
        {error, Reason} ->
            {error, [File, $\s, whittle_file:format_error(Reason), ": name another file"]}
    end.

no_module(File, Error) -> [File, $\s, whittle_beam:format_error(Error)].

compiled(File) ->
    case whittle_work:steps([fun(_) -> whittle_file:whole(File, ?LARGEST) end,
                             fun whittle_bounded:check_text/1,
                             fun(_) -> whittle_includes:check(File, [], #{}) end]) of
        ok ->
            %% Whittle compiles the module again for the OTP of the agents.
            case compile:file(File, [binary, debug_info, return_errors,
                                     {i, filename:dirname(File)}]) of
                {ok, _, Bytes} when is_binary(Bytes) -> {ok, Bytes};
                {ok, _, Bytes, _} when is_binary(Bytes) -> {ok, Bytes};
                {error, [{In, [Error | _]} | _], _} -> {error, problem(In, Error)};
                %% Warnings count as errors.
                {error, _, [{In, [Warning | _]} | _]} -> {error, problem(In, Warning)};
                _ -> {error, [File, " was not compiled: unset ERL_COMPILER_OPTIONS"]}
            end;
        {error, {too_many_atoms, _} = Reason} -> {error, refusal(File, File, Reason)};
        {error, {Refused, Reason}} -> {error, refusal(Refused, File, Reason)};
        {error, Reason} -> {error, refusal(File, File, Reason)}
    end.

refusal(File, File, Reason) -> [File, $\s, whittle_includes:format_error(Reason)];
refusal(Included, File, Reason) ->
    [Included, ", which ", File, " includes, ", whittle_includes:format_error(Reason)].

problem(File, {none, Module, Reason}) -> [File, ": ", Module:format_error(Reason)];
problem(File, {{Line, Column}, Module, Reason}) ->
    io_lib:format("~ts:~b:~b: ~ts", [File, Line, Column, Module:format_error(Reason)]);
problem(File, {Line, Module, Reason}) ->
    io_lib:format("~ts:~b: ~ts", [File, Line, Module:format_error(Reason)]).

%% A damaged file may claim more than the memory holds, so `beam_lib' does not read it. The agents
%% contain these modules beside OTP's and their own.
code(Bytes, File) ->
    case whittle_beam:read(Bytes) of
        {ok, Beam} ->
            Module = whittle_beam:module(Beam),
            case is_taken(Module) of
                false ->
                    {ok, #{module => Module, beam => Bytes, exports => whittle_beam:exports(Beam),
                           attributes => whittle_beam:attributes(Beam)}};
                true -> {error, [File, ": Whittle or OTP already has a module `",
                                 atom_to_list(Module), "': choose another name"]}
            end;
        {error, Error} -> {error, no_module(File, Error)}
    end.

is_taken(Module) ->
    Name = atom_to_list(Module),
    lists:prefix("whittle_", Name) orelse code:is_loaded(Module) =/= false
        orelse code:where_is_file(Name ++ ".beam") =/= non_existing.

exported(Functions, File, #{exports := Exports} = Code) ->
    case Functions -- Exports of
        [] -> {ok, Code};
        Missing ->
            {error, [File, " does not export ",
                     lists:join(", ", [io_lib:format("~s/~b", [Name, Arity])
                                       || {Name, Arity} <- Missing]),
                     ": see docs/load.md"]}
    end.

attribute(Name, Example, File, #{attributes := Attributes} = Code) ->
    case lists:append([Values || {Is, Values} <- Attributes, Is =:= Name, length(Values) >= 0]) of
        [_ | _] = All -> {ok, {All, Code}};
        [] -> {error, [File, " has no attribute `", atom_to_list(Name), "': write one such as ",
                      Example]}
    end.

is_step({Name, Kinds}) -> is_step({Name, Kinds, answer});
is_step({Name, Kinds, Answer}) when is_atom(Name), length(Kinds) >= 0 ->
    lists:member(Answer, [answer, held]) andalso not lists:member(Name, ?TAKEN)
        andalso lists:all(fun(Kind) -> lists:member(Kind, ?KINDS) end, Kinds);
is_step(_) -> false.

%% A step may have several forms.
protocol(Steps, #{module := Module}) ->
    #{name => own, client => Module, buffer => 512,
      steps => lists:foldl(fun(Step, Forms) ->
                                   maps:update_with(element(1, Step),
                                                    fun(Others) -> Others ++ [element(2, Step)] end,
                                                    [element(2, Step)], Forms)
                           end, #{}, Steps),
      answers => lists:usort([Name || {Name, _, _} <- Steps]),
      held => case [Name || {Name, _, held} <- Steps] of
                  [Name | _] -> Name;
                  [] -> connect
              end}.

names(Names) -> lists:join(", ", [atom_to_list(Name) || Name <- Names]).
