%% Tests the parts of ERTS that a program does without, on small modules that stand for those of
%% the VM.
-module(whittle_shake_vm_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([functions_of_c/1, other_functions/1, nifs_follow_the_program/1, drivers/1,
         tracing_needs_its_nifs/1, bifs_of_features/1,
         features_of_the_vm/1, asked_in_vain/1, explained/1]).

all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info].

%% C code looks up some functions by name. A BIF has a number.
functions_of_c(_) ->
    #{functions := Functions} = cut("main() -> ok."),
    [?assertEqual({Mfa, Is}, {Mfa, is_map_key(Mfa, Functions)})
     || {Mfa, Is} <- [{{erlang, delay_trap, 2}, false}, {{erlang, adler32, 1}, true},
                      {{erlang, spawn, 1}, true}, {{erts_internal, await_result, 1}, false},
                      {{erts_internal, trace, 4}, true}]].

%% A plan for the whole VM keeps the modules of the VM whole.
other_functions(_) ->
    {ok, #{hot := Hot}} = plan("main() -> erlang:adler32(<<>>).", whole),
    ?assert(is_map_key({erlang, spawn, 1}, Hot)),
    #{functions := Functions, preloaded := Preloaded} = cut("main() -> erlang:adler32(<<>>)."),
    ?assertNot(is_map_key({erlang, adler32, 1}, Functions)),
    ?assertEqual([{adler32, 1}, {delay_trap, 2}, {nif_error, 1}], exports(erlang, Preloaded)),
    ?assertNot(is_map_key(counters, Preloaded)).

%% The start of the VM loads NIFs. If the program does not call a module, the start finds an
%% `on_load/0' that does nothing, or no module.
nifs_follow_the_program(_) ->
    #{libraries := Without, preloaded := Less} = cut("main() -> ok."),
    ?assertEqual(["erl_tracer", "prim_net", "prim_socket", "terminfo", "zlib"],
                 lists:sort(Without -- ["inet"])),
    ?assertEqual([{on_load, 0}], exports(zlib, Less)),
    ?assertEqual([{on_load, 0}], exports(erl_tracer, Less)),
    ?assertNot(is_map_key(prim_socket, Less)),
    ?assertNot(is_map_key(prim_net, Less)),
    #{preloaded := Sockets} = cut("main() -> prim_socket:open()."),
    ?assertEqual([{on_load, 0}], exports(prim_net, Sockets)),
    #{libraries := With, preloaded := More} = cut("main() -> zlib:inflate(x)."),
    ?assertNot(lists:member("zlib", With)),
    %% load_nif/2 needs all functions of the library.
    ?assertEqual([{inflate, 1}, {on_load, 0}, {other, 0}], exports(zlib, More)).

%% The name of a driver may come from data.
drivers(_) ->
    [?assertEqual({Main, Has}, begin
                                   #{libraries := Without} = cut(Main),
                                   {Main, not lists:member("inet", Without)}
                               end)
     || {Main, Has} <- [{"main() -> ok.", false}, {"main() -> prim_inet:open().", true},
                        {"main() -> erlang:open_port(x, []).", true},
                        {"main() -> erts_internal:open_port(x, []).", true},
                        {"main() -> F = name(), erlang:F(x, []). name() -> open_port.", true}]].

tracing_needs_its_nifs(_) ->
    #{libraries := Without} = cut("main() -> erts_internal:trace(a, b, c, d)."),
    ?assertNot(lists:member("erl_tracer", Without)).

%% OTP asks a BIF of the distribution for each print, also where the feature is off.
bifs_of_features(_) ->
    #{functions := Functions} =
        cut(["main() -> io:request()."],
            [{io, "-module(io). -export([request/0]). "
                  "request() -> net_kernel:dflag_unicode_io(x)."},
             {net_kernel, "-module(net_kernel). -export([dflag_unicode_io/1, other/0]). "
                          "dflag_unicode_io(_) -> erlang:nif_error(undef). other() -> ok."}]),
    ?assertNot(is_map_key({net_kernel, dflag_unicode_io, 1}, Functions)),
    ?assert(is_map_key({net_kernel, other, 0}, Functions)).

%% A whole VM has the features of ERTS, so a plan for it knows nothing of them.
features_of_the_vm(_) ->
    Off = fun(Vm) ->
                  {ok, #{reached := #{blocked := Blocked}}} =
                      plan("main() -> io:f().", Vm,
                           [{io, "-module(io). -export([f/0]). f() -> re:run(x, y)."},
                            {re, "-module(re). -export([run/2]). "
                                 "run(_, _) -> erlang:nif_error(undef)."}]),
                  is_map_key(regexps, Blocked)
          end,
    ?assertNot(Off(whole)),
    ?assert(Off(program)),
    Names = [Name || {Name, _} <- whittle_shake:features()],
    ?assertEqual([], [inet_loader, regexps, sendfile, terminal, tracing] -- Names).

%% For a whole VM, an option that is about a part of it has no effect, and the build says so.
asked_in_vain(_) ->
    Said = fun(Vm) ->
                   {ok, Plan} = plan("main() -> ok.", Vm, [], #{on => [tracing], off => [regexps]}),
                   [Line || Note <- whittle_shake:notes(Plan),
                            Line <- [unicode:characters_to_list(Note)],
                            string:find(Line, "has no effect") =/= nomatch]
           end,
    ?assertEqual([], Said(program)),
    ?assertMatch(["feature regexps is a part of the VM" ++ _, "feature tracing is " ++ _],
                 Said(whole)).

%% The program can name the removed functions of the VM to the person who meets one.
explained(_) ->
    {ok, Plan} = plan("main() -> zlib:inflate(x).", program),
    Names = whittle_shake_vm:removed(Plan, system("main() -> zlib:inflate(x).", [])),
    [?assertEqual({Name, Is}, {Name, lists:member(Name, Names)})
     || {Name, Is} <- [{{erlang, adler32, 1}, true}, {{erlang, delay_trap, 2}, false},
                       {counters, true}, {prim_socket, true}, {zlib, false},
                       {{erl_tracer, enabled, 3}, true}, {{erl_tracer, on_load, 0}, false}]],
    {ok, Whole} = plan("main() -> ok.", whole),
    ?assertEqual([], whittle_shake_vm:removed(Whole, system("main() -> ok.", []))).

%% Internal

cut(Main) -> cut(Main, []).

cut(Main, Otp) ->
    {ok, Plan} = plan(Main, program, Otp),
    whittle_shake:vm_cut(Plan, preloaded()).

plan(Main, Vm) -> plan(Main, Vm, []).

plan(Main, Vm, Otp) -> plan(Main, Vm, Otp, #{}).

plan(Main, Vm, Otp, Options) ->
    System = system(Main, Otp),
    {ok, Facts} = whittle_shake:facts(System, preloaded()),
    whittle_shake:plan(System, Options#{facts => Facts, unit => functions, missing => crash,
                                        vm => Vm, keep => [{a, main, 0}],
                                        declared => #{remote => [], data => []}}).

system(Main, Otp) ->
    Put = fun(Name, Kind, Modules, System) ->
                  whittle_system:put_app(
                    #{name => Name, vsn => "1", files => #{},
                      modules => maps:from_list([{M, made:beam(Text)} || {M, Text} <- Modules]),
                      spec => {application, Name, [{vsn, "1"}]}, origin => #{kind => Kind}},
                    System)
          end,
    Put(a, input, [{a, lists:flatten(["-module(a). -export([main/0]). ", Main])}],
        Put(kernel, otp, Otp,
            whittle_system:set_boot({script, {"s", "1"}, []},
                                    whittle_system:new(#{name => "s", vsn => "1",
                                                         otp => "29"})))).

preloaded() ->
    Bif = " -> erlang:nif_error(undef). ",
    maps:from_list(
      [{M, made:beam(lists:flatten(["-module(", atom_to_list(M), "). ", Text]))}
       || {M, Text} <-
              [{erlang, ["-export([adler32/1, delay_trap/2, spawn/1, nif_error/1]). "
                         "adler32(_)", Bif, "spawn(_)", Bif, "nif_error(_)", Bif,
                         "delay_trap(_, R) -> R."]},
               {erts_internal, ["-export([await_result/1, trace/4]). await_result(_) -> ok. "
                                "trace(_, _, _, _)", Bif]},
               {erl_init, ["-export([start/2]). start(_, _) -> zlib:on_load(), "
                           "erl_tracer:on_load(), prim_socket:on_load(), prim_net:on_load()."]},
               {zlib, ["-export([on_load/0, inflate/1, other/0]). "
                       "on_load() -> erlang:load_nif(\"zlib\", 0). inflate(_)", Bif, "other()",
                       Bif]},
               {erl_tracer, ["-export([on_load/0, enabled/3, trace/5]). "
                             "on_load() -> erlang:load_nif(\"erl_tracer\", 0). "
                             "enabled(_, _, _)", Bif, "trace(_, _, _, _, _)", Bif]},
               {prim_socket, ["-export([on_load/0, open/0]). "
                              "on_load() -> erlang:load_nif(\"s\", 0). open()", Bif]},
               {prim_net, "-export([on_load/0]). on_load() -> erlang:load_nif(\"n\", 0)."},
               {prim_inet, "-export([open/0]). open() -> ok."},
               {counters, "-export([new/0]). new() -> ok."}]]).

exports(M, Preloaded) ->
    {ok, Beam} = whittle_beam:read(maps:get(M, Preloaded)),
    lists:sort(whittle_beam:exports(Beam)) -- [{module_info, 0}, {module_info, 1}].
