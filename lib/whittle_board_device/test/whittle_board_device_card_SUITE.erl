%% Tests the interface to the slots of a card, on a file in place of the card.
%% acceptance/suites/card_SUITE tests it on a board.
-module(whittle_board_device_card_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([on_a_desk/1, info/1, trial/1, refused/1, refused_on_trial/1, replaced/1, pieces/1,
         one_at_a_time/1, wrong_argument/1, other_card/1, dead_caller/1, no_state/1, lost_state/1,
         damaged_card/1, errors/1]).

all() ->
    [on_a_desk, info, trial, refused, refused_on_trial, replaced, pieces, one_at_a_time,
     wrong_argument, other_card, dead_caller, no_state, lost_state, damaged_card, errors].

-define(SECTOR, 512).

init_per_testcase(Case, Config) ->
    Dir = filename:absname(proplists:get_value(priv_dir, Config)),
    Card = filename:join(Dir, atom_to_list(Case) ++ ".card"),
    case Case of
        on_a_desk -> ok;
        _ ->
            made(Card),
            started(Card, "a")
    end,
    [{card, Card}, {image, filename:join(Dir, atom_to_list(Case) ++ ".img")} | Config].

end_per_testcase(_, _) ->
    _ = application:stop(whittle_board_device),
    [os:unsetenv(Name) || Name <- ["WHITTLE_CARD", "WHITTLE_BOARD", "WHITTLE_SLOT"]],
    ok.

layout() -> whittle_card:layout(#{slot => 4, data => 1}).

made(Card) ->
    #{sectors := Sectors, state := {One, Two}} = layout(),
    {ok, Fd} = file:open(Card, [write, raw, binary]),
    State = whittle_card:state(whittle_card:new_state()),
    First = whittle_card:first_sector(layout(), #{board => <<"desk">>, boot => 0}),
    ok = file:pwrite(Fd, [{0, First}, {One * ?SECTOR, State}, {Two * ?SECTOR, State},
                          {Sectors * ?SECTOR - 1, <<0>>}]),
    ok = file:close(Fd).

%% Starts the application as the boot loader and the kernel do.
started(Card, Slot) ->
    _ = application:stop(whittle_board_device),
    [true = os:putenv(Name, Value) || {Name, Value} <- [{"WHITTLE_CARD", Card},
                                                        {"WHITTLE_BOARD", "desk"},
                                                        {"WHITTLE_SLOT", Slot}]],
    ok = application:start(whittle_board_device).

%% Boots, as the boot loader does: it writes the state that it started with.
boot(Card) ->
    {State, Copy} = state(Card),
    {Slot, Next} = whittle_card:started(State),
    [write_state(Card, Next, Copy) || Next =/= State],
    started(Card, atom_to_list(Slot)),
    Slot.

state(Card) ->
    #{state := {One, Two}} = layout(),
    {ok, Read} = whittle_card:read_state(sector(Card, One), sector(Card, Two)),
    Read.

write_state(Card, State, Copy) ->
    write(Card, element(Copy, maps:get(state, layout())), whittle_card:state(State)).

sector(Card, Sector) -> bytes(Card, Sector * ?SECTOR, ?SECTOR).

bytes(Card, At, Size) ->
    {ok, Fd} = file:open(Card, [read, raw, binary]),
    {ok, Bytes} = file:pread(Fd, At, Size),
    ok = file:close(Fd),
    Bytes.

write(Card, Sector, Bytes) ->
    {ok, Fd} = file:open(Card, [read, write, raw, binary]),
    ok = file:pwrite(Fd, Sector * ?SECTOR, Bytes),
    ok = file:close(Fd).

%% An image with the label that whittle_board_label writes.
image(Bytes) -> image(Bytes, integer_to_binary(erlang:crc32(Bytes), 16), <<"desk">>).

image(Bytes, Crc, Board) ->
    Text = <<"sha256 0\nboard ", Board/binary, "\ntarget x\n", (crc_line(Crc))/binary,
             "part 5 5 a\n">>,
    <<Bytes/binary, Text/binary, (byte_size(Text)):32, "Whittle image 1\n">>.

crc_line(none) -> <<>>;
crc_line(Crc) -> <<"crc32 ", Crc/binary, "\n">>.

on_a_desk(_) ->
    ok = application:start(whittle_board_device),
    [?assertEqual({error, no_card}, Result)
     || Result <- [whittle_board_device:slot(), whittle_board_device:confirm(),
                   whittle_board_device:start_install(),
                   whittle_board_device:install("/etc/passwd")]].

info(_) ->
    ?assertEqual({ok, #{slot => a, on_trial => false, next => a, failed => false}},
                 whittle_board_device:slot()),
    ?assertEqual(ok, whittle_board_device:confirm()).

%% Installs, starts on trial, falls back, tries again, and confirms.
trial(Config) ->
    Card = proplists:get_value(card, Config),
    File = proplists:get_value(image, Config),
    Image = image(rand:bytes(200_000)),
    ok = file:write_file(File, Image),
    ?assertEqual(ok, whittle_board_device:install(File)),
    ?assertEqual({ok, #{slot => a, on_trial => false, next => b, failed => false}},
                 whittle_board_device:slot()),
    %% The boot loader finds the image by the head of its slot.
    #{b := {B, _}} = layout(),
    ?assertEqual({ok, #{size => byte_size(Image), crc32 => erlang:crc32(Image)}},
                 whittle_card:read_head(sector(Card, B))),
    ?assertEqual(Image, bytes(Card, (B + 1) * ?SECTOR, byte_size(Image))),
    ?assertEqual(b, boot(Card)),
    ?assertEqual({ok, #{slot => b, on_trial => true, next => a, failed => false}},
                 whittle_board_device:slot()),
    ?assertEqual(a, boot(Card)),
    ?assertEqual({ok, #{slot => a, on_trial => false, next => a, failed => true}},
                 whittle_board_device:slot()),
    ?assertEqual(ok, whittle_board_device:install(File)),
    ?assertEqual(b, boot(Card)),
    ?assertEqual(ok, whittle_board_device:confirm()),
    ?assertEqual({ok, #{slot => b, on_trial => false, next => b, failed => false}},
                 whittle_board_device:slot()),
    ?assertEqual(b, boot(Card)),
    %% Now slot A is the other one.
    ?assertEqual(ok, whittle_board_device:install(File)),
    ?assertEqual(a, boot(Card)).

%% Bad images. Slot A stays the one that starts.
refused(Config) ->
    Card = proplists:get_value(card, Config),
    Bytes = rand:bytes(5000),
    Image = image(Bytes),
    <<Before:4000/binary, Byte, After/binary>> = Image,
    Larger = image(<<0:(4 * 1024 * 1024)/unit:8>>),
    [begin
         ok = file:write_file(proplists:get_value(image, Config), Wrong),
         ?assertEqual({error, Reason},
                      whittle_board_device:install(proplists:get_value(image, Config))),
         ?assertMatch({ok, #{next := a, failed := false}}, whittle_board_device:slot()),
         #{b := {B, _}} = layout(),
         ?assertEqual(error, whittle_card:read_head(sector(Card, B)))
     end || {Reason, Wrong} <-
                [{not_an_image, <<>>}, {not_an_image, Bytes},
                 {not_an_image, binary:part(Image, 0, byte_size(Image) - 1)},
                 {not_an_image, <<16#ffffffff:32, "Whittle image 1\n">>},
                 {not_an_image, <<"x", 60000:32, "Whittle image 1\n">>},
                 {damaged_image, <<Before/binary, (Byte bxor 1), After/binary>>},
                 {damaged_image, binary:part(Image, 1, byte_size(Image) - 1)},
                 {damaged_image, image(Bytes, <<"x">>, <<"desk">>)},
                 {not_an_image, <<0:32, "Whittle image 1\n">>},
                 {not_an_image, <<"x", 0:32, "Whittle image 1\n">>},
                 {not_for_a_card, image(Bytes, none, <<"desk">>)},
                 {{other_board, <<"other">>, <<"desk">>}, image(Bytes, <<"0">>, <<"other">>)},
                 {{too_large, 4 * 1024 * 1024 - 512}, Larger}]],
    ?assertEqual({error, {unreadable, enoent}}, whittle_board_device:install("/none")).

%% A running image on trial must not replace the one to fall back to.
refused_on_trial(Config) ->
    Card = proplists:get_value(card, Config),
    File = proplists:get_value(image, Config),
    ok = file:write_file(File, image(<<"one">>)),
    ok = whittle_board_device:install(File),
    b = boot(Card),
    ?assertEqual({error, on_trial}, whittle_board_device:install(File)),
    ok = whittle_board_device:confirm(),
    ?assertEqual(ok, whittle_board_device:install(File)).

%% A new installation first takes back the old one's trial.
replaced(Config) ->
    Card = proplists:get_value(card, Config),
    File = proplists:get_value(image, Config),
    ok = file:write_file(File, image(<<"one">>)),
    ok = whittle_board_device:install(File),
    {ok, _} = whittle_board_device:start_install(),
    ?assertMatch({ok, #{next := a}}, whittle_board_device:slot()),
    ?assertEqual(a, boot(Card)).

%% Pieces of any size give the same image.
pieces(Config) ->
    Card = proplists:get_value(card, Config),
    Image = image(rand:bytes(30_000)),
    {ok, Install} = whittle_board_device:start_install(),
    sent(Install, Image),
    ?assertEqual(ok, whittle_board_device:finish(Install)),
    #{b := {B, _}} = layout(),
    ?assertEqual(Image, bytes(Card, (B + 1) * ?SECTOR, byte_size(Image))),
    ?assertEqual({error, ended}, whittle_board_device:finish(Install)),
    ?assertEqual({error, ended}, whittle_board_device:write(Install, "x")).

sent(_, <<>>) -> ok;
sent(Install, Bytes) ->
    Size = min(rand:uniform(2000) - 1, byte_size(Bytes)),
    <<Piece:Size/binary, Rest/binary>> = Bytes,
    ok = whittle_board_device:write(Install, [Piece]),
    sent(Install, Rest).

one_at_a_time(_) ->
    {ok, Install} = whittle_board_device:start_install(),
    ?assertEqual({error, busy}, whittle_board_device:start_install()),
    ?assertEqual({error, busy}, whittle_board_device:install("/etc/passwd")),
    ?assertEqual(ok, whittle_board_device:cancel(Install)),
    ?assertEqual({error, ended}, whittle_board_device:cancel(Install)),
    {ok, _} = whittle_board_device:start_install().

%% A mistake of the caller stays with the caller: the server and its application go on.
wrong_argument(_) ->
    {ok, Install} = whittle_board_device:start_install(),
    [?assertError(badarg, whittle_board_device:write(Install, Wrong))
     || Wrong <- [not_iodata, [a], [<<1:7>>], 5, [256], [<<"x">> | y], #{}]],
    ?assertEqual(ok, whittle_board_device:write(Install, [<<"x">>, $y | <<"z">>])),
    ?assertEqual(ok, whittle_board_device:cancel(Install)).

%% The name of the card now leads to a card of another board.
other_card(Config) ->
    Card = proplists:get_value(card, Config),
    write(Card, 0, whittle_card:first_sector(layout(), #{board => <<"other">>, boot => 0})),
    {ok, Before} = file:read_file(Card),
    [?assertEqual({error, other_card}, Result)
     || Result <- [whittle_board_device:slot(), whittle_board_device:confirm(),
                   whittle_board_device:start_install()]],
    ?assertEqual({ok, Before}, file:read_file(Card)).

%% The end of the process that installs ends the installation.
dead_caller(_) ->
    Test = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
                                           Test ! whittle_board_device:start_install(),
                                           receive stop -> ok end
                                   end),
    {ok, Install} = receive Result -> Result end,
    Pid ! stop,
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    %% The server's own message of this may come later.
    free(),
    ?assertEqual({error, ended}, whittle_board_device:write(Install, "x")).

free() ->
    case whittle_board_device:start_install() of
        {ok, _} -> ok;
        {error, busy} -> free()
    end.

%% Without a valid copy of the state, the board starts slot A, and can install and confirm.
no_state(Config) ->
    Card = proplists:get_value(card, Config),
    File = proplists:get_value(image, Config),
    #{state := {One, Two}} = layout(),
    [write(Card, Sector, rand:bytes(?SECTOR)) || Sector <- [One, Two]],
    ?assertMatch({ok, #{slot := a, next := a}}, whittle_board_device:slot()),
    ok = file:write_file(File, image(<<"one">>)),
    ok = whittle_board_device:install(File),
    ?assertEqual(b, boot(Card)),
    ok = whittle_board_device:confirm(),
    %% One valid copy is enough.
    {_, Next} = state(Card),
    write(Card, element(Next, {One, Two}), rand:bytes(?SECTOR)),
    ?assertEqual(b, boot(Card)).

%% Both copies get lost while slot B runs and an image is on its way to slot A.
lost_state(Config) ->
    Card = proplists:get_value(card, Config),
    {State, Copy} = state(Card),
    write_state(Card, whittle_card:confirmed(State, b), Copy),
    started(Card, "b"),
    {ok, Install} = whittle_board_device:start_install(),
    ok = whittle_board_device:write(Install, image(<<"one">>)),
    #{state := {One, Two}} = layout(),
    [write(Card, Sector, rand:bytes(?SECTOR)) || Sector <- [One, Two]],
    ok = whittle_board_device:finish(Install),
    ?assertMatch({#{good := b, trial := a, tries := 1}, _}, state(Card)).

damaged_card(Config) ->
    Card = proplists:get_value(card, Config),
    write(Card, 0, <<0:?SECTOR/unit:8>>),
    ?assertEqual({error, no_layout}, whittle_board_device:slot()),
    ok = file:write_file(Card, "short"),
    ?assertEqual({error, {card, eof}}, whittle_board_device:start_install()),
    ok = file:delete(Card),
    ?assertEqual({error, {card, enoent}}, whittle_board_device:confirm()).

errors(_) ->
    [begin
         Text = lists:flatten(unicode:characters_to_list(whittle_board_device:format_error(Error))),
         ?assertNot(lists:member($\n, Text)),
         ?assertNotEqual($., lists:last(Text))
     end || Error <- [busy, ended, no_card, no_layout, other_card, on_trial, not_an_image,
                      not_for_a_card, damaged_image, {other_board, <<"a">>, <<"b">>},
                      {too_large, 5}, {card, eof}, {card, eio}, {unreadable, enoent}]].
