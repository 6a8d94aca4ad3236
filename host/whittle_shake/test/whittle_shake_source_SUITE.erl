%% Tests the names in packed source: the headers of applications, and an Elixir configuration.
-module(whittle_shake_source_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([headers/1, other_files/1, no_erlang/1, runtime_exs/1, macros/1, comments/1,
         aliases/1, long_words/1,
         using/1, long_names/1, many_names/1, many_aliases/1, many_functions/1,
         in_a_plan/1]).

all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info].

%% The lines are like those of eunit.hrl, assert.hrl and logger.hrl. `name/2' belongs to no such
%% module, and `type' is no function of it.
headers(_) ->
    System = with_file(<<"include/a.hrl">>,
                       "-compile({parse_transform, transform}).\n"
                       "-define(SAY(X), b:say(X, name:name(X))).\n"
                       "-define(LATE(X), apply(b,late,[X])).\n"
                       "-type t() :: b:type().\n"),
    ?assertEqual([{b, late, 1}, {b, late, 2}, {b, say, 2}, {transform, parse_transform, 2},
                  {transform, parse_transform_info, 0}],
                 of_headers(System, #{b => [{late, 1}, {late, 2}, {say, 2}, {unsaid, 1}],
                                      transform => [{other, 0}, {parse_transform, 2},
                                                    {parse_transform_info, 0}]})).

%% The preprocessor reads only headers.
other_files(_) ->
    [?assertEqual([], of_headers(with_file(Path, "-define(X, b:say())."), #{b => [{say, 0}]}))
     || Path <- [<<"priv/a.hrl">>, <<"include/a.txt">>]].

no_erlang(_) ->
    [?assertEqual([], of_headers(with_file(<<"include/a.hrl">>, Text), #{b => [{say, 0}]}))
     || Text <- ["b:say(\"", <<"b:say(", 255, "\"">>, ""]],
    %% Text that is not UTF-8 counts as Latin-1.
    Latin = with_file(<<"include/a.hrl">>, <<"% ", 255, "\nb:say()">>),
    ?assertEqual([{b, say, 0}], of_headers(Latin, #{b => [{say, 0}]})),
    %% The search continues behind text that is no token.
    Bad = with_file(<<"include/a.hrl">>, "-define(X, 99#1).\n-define(Y, b:say()).\n"),
    ?assertEqual([{b, say, 0}], of_headers(Bad, #{b => [{say, 0}]})).

%% The search finds functions of modules, and Elixir's own functions without a module.
%% Configuration may name any module. The search reads strings too, because `PORT' could be a
%% module.
runtime_exs(_) ->
    System = with_script("import Config\n"
                         "port = String.to_integer(System.get_env(\"PORT\") || \"1\")\n"
                         "config :app, port: port, start: {My.Server, :begin},\n"
                         "  x: :lists.max([1])\n"),
    {Calls, Atoms} = found(System, #{'Elixir.Config' => [{config, 2}, {config, 3}, {unused, 1}],
                                     'Elixir.String' => [{to_integer, 1}, {to_atom, 1}],
                                     'Elixir.System' => [{get_env, 1}, {stop, 1}],
                                     lists => [{max, 1}, {min, 1}]}),
    ?assertEqual([{'Elixir.Config', config, 2}, {'Elixir.Config', config, 3},
                  {'Elixir.String', to_integer, 1}, {'Elixir.System', get_env, 1},
                  {lists, max, 1}], [Mfa || {Mfa, "runtime.exs"} <- Calls]),
    ?assertEqual(['Elixir.Config', 'Elixir.My.Server', 'Elixir.PORT', 'Elixir.String',
                  'Elixir.System', app, 'begin', lists, port, start, x],
                 [Atom || {Atom, "runtime.exs"} <- Atoms]).

%% Functions count by their names. Macros count too, and so do all macros that need no `require',
%% because one expands to another: `unless' to `if'.
macros(_) ->
    System = with_script("require My\n"
                         "unless 1 == System.get_env(\"A\"), do: My.own(1)\n"),
    {Calls, _} = found(System, #{'Elixir.Kernel' => [{'MACRO-if', 3}, {'MACRO-unless', 3},
                                                     {'==', 2}, {'not', 1}],
                                 'Elixir.Config' => [{'MACRO-config_env', 1}, {'__env__!', 0}],
                                 'Elixir.My' => [{'MACRO-own', 2}, {'MACRO-other', 2}]}),
    ?assertEqual([{'Elixir.Config', 'MACRO-config_env', 1}, {'Elixir.Kernel', '==', 2},
                  {'Elixir.Kernel', 'MACRO-if', 3}, {'Elixir.Kernel', 'MACRO-unless', 3},
                  {'Elixir.My', 'MACRO-own', 2}], [Mfa || {Mfa, _} <- Calls]).

%% A line that only looks like a comment counts: `#{...}' in a string is code.
comments(_) ->
    System = with_script("  # Dead.one()\nx = \"# #{Live.one()}\" # Live.two()\n"),
    Exports = [{one, 0}, {two, 0}],
    {Calls, _} = found(System, #{'Elixir.Dead' => Exports, 'Elixir.Live' => Exports}),
    ?assertEqual([{'Elixir.Live', one, 0}, {'Elixir.Live', two, 0}], [Mfa || {Mfa, _} <- Calls]),
    Text = with_script("x = \"\"\"\n  #{Live.one()}\n\"\"\"\n"),
    ?assertMatch({[{{'Elixir.Live', one, 0}, _}], _}, found(Text, #{'Elixir.Live' => [{one, 0}]})).

%% Other names for modules, and functions without a module.
aliases(_) ->
    System = with_script("alias My.Server\nalias My.{A, B.C}\nalias Other.Long, as: L\n"
                         "import Dotenv\n"
                         "config :app, x: Server.go(), y: C.d(A.b()), z: L.e(), w: env!(\"W\")\n"),
    Exports = maps:from_list([{list_to_atom("Elixir." ++ M), [{F, 0}]}
                              || {M, F} <- [{"My.Server", go}, {"My.A", b}, {"My.B.C", d},
                                            {"Other.Long", e}, {"Dotenv", 'env!'},
                                            {"Server", stop}, {"Else", go}]]),
    {Calls, _} = found(System, Exports),
    ?assertEqual([{'Elixir.Dotenv', 'env!', 0}, {'Elixir.My.A', b, 0}, {'Elixir.My.B.C', d, 0},
                  {'Elixir.My.Server', go, 0}, {'Elixir.Other.Long', e, 0}],
                 [Mfa || {Mfa, _} <- Calls]).

using(_) ->
    Exports = #{'Elixir.My' => [{'MACRO-__using__', 2}]},
    {Calls, _} = found(with_script("use My\n"), Exports),
    ?assertEqual([{'Elixir.My', 'MACRO-__using__', 2}], [Mfa || {Mfa, _} <- Calls]),
    ?assertMatch({[], _}, found(with_script("alias My\n"), Exports)).

%% A key in hexadecimal is no atom.
long_words(_) ->
    Long = lists:duplicate(400, $a),
    ?assertMatch({[], _}, found(with_script(["x = \"", Long, "\"; :", Long, ".", Long]),
                                #{'Elixir.Kernel' => []})).

%% Each part of such a text could begin a name, and reads no more than a name has.
long_names(_) ->
    [begin
         {_, Atoms} = found(with_script([lists:duplicate(500_000, Part), " :last"]), #{}),
         ?assertEqual({Part, [last]}, {Part, [Atom || {last = Atom, "runtime.exs"} <- Atoms]})
     end || Part <- ["A", "A.", "alias A.{"]].

%% Each word could be a function of each module. The search needs memory for each of them once.
many_names(_) ->
    Numbers = [integer_to_list(N) || N <- lists:seq(1, 3000)],
    System = with_script(["import M", [[" Unseen", N, " unseen", N] || N <- Numbers], " word Zoo"]),
    Text = fun() -> exit(found(System, #{'Elixir.M' => [{word, 0}], 'Elixir.Zoo' => []})) end,
    {_, Ref} = spawn_opt(Text, [monitor, {max_heap_size, 4_000_000}]),  % words
    receive
        {'DOWN', Ref, process, _, Found} ->
            ?assertMatch({[{{'Elixir.M', word, 0}, _}], _}, Found),
            ?assertEqual(['Elixir.M', 'Elixir.Zoo'],
                         [Atom || {Atom, _} <- element(2, Found),
                                  lists:prefix("Elixir.", atom_to_list(Atom))])
    end,
    [?assertError(badarg, binary_to_existing_atom(iolist_to_binary([Name, integer_to_list(7)])))
     || Name <- ["Elixir.Unseen", "unseen"]].

%% A name with many aliases counts once for each.
many_aliases(_) ->
    Numbers = [integer_to_list(N) || N <- lists:seq(1, 1000)],
    Script = [[["alias A", N, ".X\n"] || N <- Numbers], [["X.B", N, $\n] || N <- Numbers]],
    {error, {too_many_aliases, {<<"runtime.exs">>, 1_000_000}}} = Refused =
        whittle_shake:plan(with_script(Script), #{facts => #{}, unit => functions}),
    ?assertEqual("the names in the packed file runtime.exs mean more than 1,000,000 modules, "
                 "because they have many aliases: divide the file, or write names without `alias'",
                 unicode:characters_to_list(whittle_shake:format_error(element(2, Refused)))),
    ?assertEqual(ok, whittle_shake_data:check_texts(with_script(tl(Script)))).

%% The search reads the exports of a module once, and not for each function that a text names.
many_functions(_) ->
    [begin
         [Less, More] = [work_of(Search, Count) || Count <- [2000, 4000]],
         ?assert(More < 3 * Less)
     end || Search <- [fun of_headers/2, fun in_erlang/2]].

%% Returns the work of a search for so many functions of one module.
work_of(Search, Count) ->
    Names = [list_to_atom("f" ++ integer_to_list(N)) || N <- lists:seq(1, Count)],
    System = with_file(<<"include/a.hrl">>, [["m:", atom_to_list(F), "(), "] || F <- Names]),
    Modules = #{m => [{F, 0} || F <- Names]},
    made:work(fun() -> ?assertEqual(Count, length(Search(System, Modules))) end).

in_erlang(System, Exports) ->
    [#{files := #{<<"include/a.hrl">> := #{bytes := Text}}}] = whittle_system:apps(System),
    {Calls, _} = whittle_shake_source:in_erlang(Text, summaries(Exports)),
    Calls.

%% The headers count where a function reads them.
in_a_plan(_) ->
    Sources = [{epp, ["-module(epp). -export([open/1, other/0]). open(_) -> ok. other() -> ok."]},
               {transform, ["-module(transform). -export([parse_transform/2, dead/0]).",
                            "parse_transform(Forms, _) -> Forms. dead() -> ok."]},
               {other, ["-module(other). -export([said/0, dead/0]). said() -> ok. dead() -> ok."]}],
    Modules = maps:from_list([{M, made:beam(lists:append(lists:join(" ", Source)))}
                              || {M, Source} <- Sources]),
    Header = <<"-compile({parse_transform, transform}). -define(X, other:said()).">>,
    [begin
         App = app(#{Path => #{mode => 8#644, bytes => Header}}),
         System = whittle_system:put_app(App#{modules := Modules}, system()),
         Options = #{facts => facts(System), unit => functions, keep => [Kept]},
         {ok, #{hot := Hot}} = whittle_shake:plan(System, Options),
         ?assertEqual(Live, [Mfa || {M, F, _} = Mfa <- lists:sort(maps:keys(Hot)),
                                    M =/= epp, F =/= module_info])
     end || {Path, Kept, Live} <- [{<<"include/a.hrl">>, {epp, open, 1},
                                    [{other, said, 0}, {transform, parse_transform, 2}]},
                                   {<<"include/a.hrl">>, {epp, other, 0}, []},
                                   {<<"include/a.txt">>, {epp, open, 1}, []}]].

%% Internal

found(System, Exports) ->
    Modules = summaries(Exports),
    Text = fun({What, {root, From}}) -> {What, lists:flatten([io_lib:format("~ts", [From])])} end,
    Names = whittle_shake_source:names(System),
    {lists:usort([Text(Call) || Call <- whittle_shake_source:calls(Names, Modules)]),
     lists:usort([Text(Atom) || Atom <- whittle_shake_source:atoms(Names)])}.

of_headers(System, Exports) ->
    #{{epp, open, 1} := Called} = whittle_shake_source:headers(System, summaries(Exports)),
    Called.

summaries(Exports) -> maps:map(fun(_, Functions) -> #{exports => Functions} end, Exports).

with_file(Path, Text) ->
    whittle_system:put_app(app(#{Path => #{mode => 8#644, bytes => iolist_to_binary(Text)}}),
                           system()).

with_script(Text) ->
    whittle_system:put_file(<<"runtime.exs">>, #{mode => 8#644, bytes => iolist_to_binary(Text)},
                            system()).

app(Files) ->
    #{name => a, vsn => "1", modules => #{}, files => Files,
      spec => {application, a, [{vsn, "1"}, {modules, []}]}, origin => #{kind => input}}.

facts(System) ->
    {ok, Facts} = whittle_shake:facts(System, #{}),
    Facts.

system() ->
    whittle_system:set_boot({script, {"s", "1"}, []},
                            whittle_system:new(#{name => "s", vsn => "1", otp => "25"})).
