%% @hidden Decides which modules the code of an OTP application can mean by a name.
%%
%% OTP's code calls modules of applications that it does not need in three ways: by a call in the
%% code (`crypto:hash/2'), by a name from the program (a callback module, a backend), and by the
%% few names in `priv/names.config'. Any other mention of such a name is an ordinary atom. For
%% example, `re' uses `compile' for the name of its own function in an error, and no program needs
%% the compiler for that.
-module(whittle_shake_known).

-export([new/2, means/3]).

-export_type([known/0]).

-opaque known() ::
          #{homes := #{module() => whittle_system:app_name()},
            %% The applications that each OTP application declares as needed. An application
            %% without an entry may mean any module.
            needs := #{whittle_system:app_name() => #{whittle_system:app_name() => []}},
            beyond := #{module() => [module()]}}.   % names.config

%% @doc Collects the names of a system and all modules, including the VM's own.
-spec new(whittle_system:system(), [module()]) -> known().
new(System, All) ->
    {ok, Terms} = file:consult(filename:join(code:priv_dir(whittle_shake), "names.config")),
    Apps = whittle_system:apps(System),
    Basis = maps:from_keys(basis(), []),
    #{homes => maps:from_list([{M, erts} || M <- All]   % unless an application below has it
                              ++ [{M, Name} || #{name := Name, modules := Modules} <- Apps,
                                               M <- maps:keys(Modules)]),
      needs => maps:from_list([{App, Basis} || App <- basis()]
                              ++ [{Name, maps:merge(Basis, needed(App))}
                                  || #{name := Name, origin := #{kind := otp}} = App <- Apps,
                                     not lists:member(Name, basis())]),
      beyond => maps:from_list(Terms)}.

%% @doc Tests whether a mention of a module's name means the module.
-spec means(whittle_shake_reach:origin(), module(), known()) -> boolean().
means({M, _, _}, Name, #{homes := Homes, needs := Needs, beyond := Beyond}) ->
    case {Homes, Needs} of
        {#{M := From, Name := To}, Needs} when From =/= To, is_map_key(From, Needs) ->
            is_map_key(To, map_get(From, Needs))
                orelse lists:member(Name, maps:get(M, Beyond, []));
        _ -> true
    end;
means({root, _}, _, _) ->
    true.

%% Internal

%% The names that these applications need from others stand in their code or in names.config.
basis() -> [erts, kernel, stdlib].

needed(#{name := Name, spec := {application, _, Props}}) ->
    Keys = [applications, optional_applications, included_applications],
    maps:from_keys([Name | [App || Key <- Keys, App <- proplists:get_value(Key, Props, [])]]
                   ++ [list_to_atom(hd(string:split(Text, "-")))
                       || Text <- proplists:get_value(runtime_dependencies, Props, [])], []).
