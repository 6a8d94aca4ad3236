%% @hidden Recompiles modules that the chosen OTP cannot load.
%%
%% An OTP release loads modules from the compilers of the two or three releases before it. OTP 29
%% has dropped instructions that the compiler of OTP 25 still writes. A module with such an
%% instruction would fail on its first call. The compiler of the chosen OTP compiles such a module
%% again from its debug information, which holds its forms after all macros and parse transforms.
%% If this is impossible, the build refuses the module.
-module(whittle_recompile).

-export([fit/2]).

%% @doc Checks the modules that do not belong to OTP, and replaces those that are too old. It
%% returns notes.
-spec fit(#{whittle_system:app_name() => whittle_system:app()}, whittle_otp_lib:otp_lib()) ->
          {ok, #{whittle_system:app_name() => whittle_system:app()}, [unicode:chardata()]}
        | {error, whittle_system:error()}.
fit(Apps, Otp) ->
    Release = list_to_integer(whittle_otp_lib:otp(Otp)),
    Found = [Old || #{name := Name, modules := Modules, origin := #{kind := Kind}}
                        <- maps:values(Apps), Kind =/= otp,
                    {Module, Bytes} <- lists:sort(maps:to_list(Modules)),
                    Old <- misfit(Name, Module, Bytes, Release)],
    case [Error || {error, Error} <- Found] of
        [Error | _] -> {error, Error};
        [] when Found =:= [] -> {ok, Apps, []};
        [] -> renew(Found, Apps, Otp)
    end.

%% Internal

misfit(Name, Module, Bytes, Release) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    case whittle_beam:loads_on(Release, Beam) of
        ok -> damaged(Name, Module, Beam);
        {error, {too_old, Opcodes}} -> [{Name, Module, Bytes, Opcodes}];
        {error, {needs_newer, #{otp := Needs, why := Why}}} ->
            [{error, {needs_newer_otp, {Name, Module, Needs, Why, integer_to_list(Release)}}}];
        {error, Error} ->
            [bad(Name, Module, Error)]
    end.

%% Finds damaged code. Code that no compiler wrote would fail at its first load.
damaged(Name, Module, Beam) ->
    case whittle_beam:disassemble(Beam) of
        {ok, _} -> [];
        {error, Error} -> [bad(Name, Module, Error)]
    end.

bad(Name, Module, Error) ->
    {error, {bad_beam, {io_lib:format("module ~ts of ~ts", [Module, Name]), Error}}}.

renew(Old, Apps, Otp) ->
    Modules = [{Module, Bytes} || {_, Module, Bytes, _} <- Old],
    Result = case whittle_otp_lib:program("erl", Otp) of
                 {ok, Erl} -> whittle_compile:again(Erl, Modules);
                 error -> {ok, #{}}
             end,
    case Result of
        {ok, Renewed} -> replace(Old, Renewed, Apps, Otp);
        {error, _} = Error -> Error
    end.

replace(Old, Renewed, Apps, Otp) ->
    case [{Name, Module, Opcodes, whittle_otp_lib:otp(Otp)}
          || {Name, Module, _, Opcodes} <- Old, not is_map_key(Module, Renewed)] of
        [] ->
            {ok, maps:map(fun(_, #{modules := Modules} = App) ->
                                  New = maps:with(maps:keys(Modules), Renewed),
                                  App#{modules := maps:merge(Modules, New)}
                          end, Apps),
             [note(Name, Old, Otp) || Name <- lists:usort([Name || {Name, _, _, _} <- Old])]};
        [Left | _] ->
            {error, {too_old, Left}}
    end.

note(Name, Old, Otp) ->
    Modules = [atom_to_list(Module) || {App, Module, _, _} <- Old, App =:= Name],
    Noun = case Modules of
               [_] -> "module";
               _ -> "modules"
           end,
    Release = whittle_otp_lib:otp(Otp),
    io_lib:format("Whittle compiled ~ts ~ts of ~ts again with OTP ~ts, because OTP ~ts cannot load "
                  "the "
                  "code of the older compiler",
                  [Noun, lists:join(", ", Modules), Name, Release, Release]).
