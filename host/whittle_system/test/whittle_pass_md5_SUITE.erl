%% @doc The MD5 that `beam_lib' of an output tells, on the OTP that the tests run on.
-module(whittle_pass_md5_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([file_says/1, no_beam_lib/1]).

all() -> [file_says, no_beam_lib].

%% In a node of its own, since it replaces a module that common_test uses.
file_says(_) ->
    {ok, Old} = file:read_file(code:which(beam_lib)),
    [#{modules := #{beam_lib := New}}] =
        whittle_system:apps(run(system(#{beam_lib => Old}))),
    {ok, Lists} = file:read_file(code:which(lists)),
    {ok, lists, Chunks} = beam_lib:all_chunks(Lists),
    With = fun(Data) ->
                   {ok, File} = beam_lib:build_module(Chunks ++ [{"Whtl", Data}]),
                   File
           end,
    Files = [With(<<"0123456789abcdef">>), With(<<"0123456789abcdefMore">>),
             Lists, With(<<"short">>), "/nowhere", <<"no module">>],
    {ok, Peer, _} = peer:start_link(#{connection => standard_io}),
    Ask = fun(M, F, A) -> peer:call(Peer, M, F, A) end,
    Answers = fun() -> [Ask(beam_lib, md5, [File]) || File <- Files] end,
    [_, _ | Before] = Answers(),
    Md5 = Ask(beam_lib, module_info, [md5]),
    true = Ask(code, unstick_mod, [beam_lib]),
    {module, beam_lib} = Ask(code, load_binary, [beam_lib, "beam_lib.beam", New]),
    [One, Two | After] = Answers(),
    ?assertEqual({ok, {lists, <<"0123456789abcdef">>}}, One),
    ?assertEqual(One, Two),
    ?assertEqual(Before, After),
    %% Its file says who it was.
    ?assertEqual({ok, {beam_lib, Md5}}, Ask(beam_lib, md5, [New])),
    ok = peer:stop(Peer).

no_beam_lib(_) ->
    Empty = system(#{}),
    ?assertEqual(Empty, run(Empty)),
    Other = system(#{beam_lib => made:beam("-module(beam_lib).")}),
    ?assertEqual(Other, run(Other)).

system(Modules) ->
    whittle_system:put_app(
      #{name => stdlib, vsn => "1", spec => {application, stdlib, [{vsn, "1"}]},
        modules => Modules, files => #{},
        origin => #{kind => otp, path => "stdlib", asked_by => []}},
      whittle_system:new(#{name => "sample", vsn => "1", otp => "25"})).

run(System) ->
    {ok, Told} = whittle_pass_md5:run(System, #{}),
    Told.
