%% Tests the data of boards, the initramfs, the labels of images, and the emulator's command. It
%% builds no kernel.
-module(whittle_board_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([boards/1, unknown_board/1, mistakes_in_a_board/1, hostile_board/1, reasons/1, features/1,
         target/1, variables/1, watchdog/1, archive/1, label/1, hostile_label/1, changed_image/1,
         files/1, cut_files/1, command/1, sizes/1, errors/1]).

all() ->
    [boards, unknown_board, mistakes_in_a_board, hostile_board, reasons, features, target,
     variables, watchdog, archive, label, hostile_label, changed_image, files, cut_files,
     command, sizes, errors].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

boards(_) ->
    [?assertEqual({ok, Board}, whittle_board:board(Name))
     || #{name := Name} = Board <- whittle_board:boards()],
    ?assert(lists:member("qemu-arm", [Name || #{name := Name} <- whittle_board:boards()])).

unknown_board(_) ->
    {error, Reason} = whittle_board:board("qemu-amr"),
    ?assertMatch({unknown_board, _}, Reason),
    said(Reason, "there is no board qemu-amr (did you mean qemu-arm?)"),
    {error, Missing} = whittle_board:board("./no.config"),
    said(Missing, "does not describe a board: the file ").

%% Each mistake gets a line of its own.
mistakes_in_a_board(Config) ->
    {ok, Good} = file:consult(filename:join(code:priv_dir(whittle_board),
                                            "boards/qemu-arm.config")),
    ?assertMatch({ok, #{name := "mine", target := "armv7"}}, read(Good, Config)),
    [begin
         {error, {bad_board, _} = Reason} = read(Terms, Config),
         said(Reason, Text)
     end
     || {Terms, Text} <-
            [{lists:keydelete(cross, 1, Good), "the key cross is missing"},
             {[{speed, 3} | Good], "there is no key speed"},
             {[{memory, 16} | Good], "memory is there twice"},
             {[memory | Good], "a term is not {Key, Value}"},
             {replaced(target, "armv9", Good), "the value of target must be one of "},
             {replaced(image, elf, Good), "the value of image must be one of zimage, image_gz"},
             {replaced(memory, 2, Good), "the value of memory must be a number of megabytes"},
             {replaced(least_memory, "14", Good),
              "the value of least_memory must be a number of megabytes"},
             {replaced(cross, "arm; rm -", Good), "the value of cross must be a word"},
             {replaced(cmdline, "a\"b", Good), "the value of cmdline must be a string without"},
             {replaced(devices, ["a" | "b"], Good),
              "the value of devices must be a list of strings"},
             {replaced(emulator, [], Good), "the value of emulator must be a list of words"},
             {replaced(kernel, [{base, [{"MMU", y}]}], Good), "the value of kernel must"},
             {replaced(kernel, [{base, [{"M\nU", y, "x"}]}], Good), "the value of kernel must"}]].

replaced(Key, Value, Terms) -> lists:keystore(Key, 1, Terms, {Key, Value}).

read(Terms, Config) ->
    File = filename:join(proplists:get_value(dir, Config), "mine.config"),
    ok = file:write_file(File, [io_lib:format("~tp.~n", [Term]) || Term <- Terms]),
    whittle_board:board(File).

%% Any bytes give an error with one line.
hostile_board(Config) ->
    File = filename:join(proplists:get_value(dir, Config), "hostile.config"),
    made:holds(200, proper_types:binary(),
               fun(Bytes) ->
                       ok = file:write_file(File, Bytes),
                       {error, {bad_board, _} = Reason} = whittle_board:board(File),
                       length(string:split(whittle_board:format_error(Reason), "\n", all)) =:= 1
               end).

%% Each option has a reason, and a feature only adds options.
reasons(_) ->
    [begin
         Base = whittle_board_data:options(Board, []),
         More = whittle_board_data:options(Board, [serial, gpio, network, watchdog]),
         ?assertEqual([], Base -- More),
         ?assertEqual([], [Option || {_, _, Reason} = Option <- More, length(Reason) < 5])
     end || Board <- whittle_board:boards()].

features(_) ->
    ?assertEqual([], whittle_board_kernel:features([crypto], ["A=b"])),
    ?assertEqual([serial, gpio],
                 whittle_board_kernel:features([whittle_gpio_nif, whittle_serial_nif], [])),
    ?assertEqual([network], whittle_board_kernel:features([], ["A=b", "WHITTLE_NETWORK=dhcp"])),
    ?assertEqual([serial, network, watchdog],
                 whittle_board_kernel:features([whittle_serial_nif],
                                               ["WHITTLE_WATCHDOG=5", "WHITTLE_NETWORK=dhcp"])).

target(_) ->
    {ok, Board} = whittle_board:board("qemu-arm"),
    ?assertEqual(ok, whittle_board:check(Board, #{target => any, env => []})),
    ?assertEqual(ok, whittle_board:check(Board, #{target => "armv7", env => []})),
    {error, Reason} = whittle_board:check(Board, #{target => "mips", env => []}),
    said(Reason, "the board qemu-arm needs the target armv7, not mips").

variables(_) ->
    {ok, Board} = whittle_board:board("qemu-arm"),
    Check = fun(Lines) -> whittle_board:check(Board, #{target => any, env => Lines}) end,
    [?assertEqual(ok, Check([Line]))
     || Line <- ["A=", "A=b=c", "_x1=\x{e4} b", "WHITTLE_END=halt", "WHITTLE_NETWORK=dhcp",
                 "WHITTLE_NETWORK=10.0.2.15/24", "WHITTLE_NETWORK=10.0.2.15/24,10.0.2.2",
                 "WHITTLE_NETWORK=10.0.2.15/32,10.0.2.2,10.0.2.3"]],
    [begin
         {error, Reason} = Check(Lines),
         said(Reason, Text)
     end || {Lines, Text} <- [{["A"], "has no =: write NAME=VALUE"},
                              {["=b"], "has no name"},
                              {["1A=b"], "has no name"},
                              {["A=b\nC=d"], "contains a control character"},
                              {["WHITTLE_CRASH=explode"], "must be poweroff, reboot, restart or"},
                              {["WHITTLE_NETWORK="], "must be dhcp or ADDRESS/BITS"},
                              {["WHITTLE_NETWORK=0.0.0.0/24"], "must be dhcp or ADDRESS/BITS"},
                              {["WHITTLE_NETWORK=127.0.0.1/8"], "must be dhcp or ADDRESS/BITS"},
                              {["WHITTLE_NETWORK=255.255.255.255/32"],
                               "must be dhcp or ADDRESS/BITS"},
                              {["WHITTLE_NETWORK=DHCP"], "must be dhcp or ADDRESS/BITS"},
                              {["WHITTLE_NETWORK=10.0.2.15"], "must be dhcp or ADDRESS/BITS"},
                              {["WHITTLE_NETWORK=10.2.15/24"], "must be dhcp or ADDRESS/BITS"},
                              {["WHITTLE_NETWORK=10.0.2.15/33"], "must be dhcp or ADDRESS/BITS"},
                              {["WHITTLE_NETWORK=10.0.2.15/24,"], "must be dhcp or ADDRESS/BITS"},
                              {["WHITTLE_NETWORK=1.2.3.4/5,1.2.3.4,1.2.3.4,1.2.3.4"],
                               "must be dhcp or ADDRESS/BITS"},
                              {["A=" ++ lists:duplicate(4095, $x)], "more than 4,096 bytes"},
                              {lists:duplicate(49, "A=b"), "more than 48"}]].

%% The variable of the watchdog, which only some boards have.
watchdog(_) ->
    {ok, Board} = whittle_board:board("qemu-arm"),
    Check = fun(Of, Line) -> whittle_board:check(Of, #{target => any, env => [Line]}) end,
    [?assertEqual(ok, Check(Board, "WHITTLE_WATCHDOG=" ++ Value))
     || Value <- ["2", "999", "5,60", "60,5"]],
    [begin
         {error, Reason} = Check(Board, "WHITTLE_WATCHDOG=" ++ Value),
         said(Reason, "must be SECONDS[,START] with numbers from 2 to 999")
     end || Value <- ["", "1", "1000", "5,", "5,1", "5,6,7", "5s", " 5", "5\x{0660}", "on"]],
    [begin
         {error, Reason} = Check(Board, Line),
         said(Reason, "would replace a variable that init sets")
     end || Line <- ["WHITTLE_HEALTH=3", "WHITTLE_RESET=watchdog"]],
    [begin
         {error, Reason} = Check(Board, Line),
         said(Reason, "would replace a variable that the boot loader sets")
     end || Line <- ["WHITTLE_SLOT=a", "WHITTLE_CARD=vda", "WHITTLE_BOARD=other"]],
    #{kernel := Kernel} = Board,
    {error, None} = Check(Board#{kernel := lists:keydelete(watchdog, 1, Kernel)},
                          "WHITTLE_WATCHDOG=5"),
    said(None, "needs a watchdog, and the description of the board qemu-arm names none").

%% Reads an archive back, as the description of the format says.
archive(_) ->
    Name = proper_types:non_empty(proper_types:list(proper_types:integer($a, $z))),
    made:holds(200, proper_types:list({Name, proper_types:binary()}),
               fun(Files) ->
                       Entries = [{file, list_to_binary(N), 8#644, Bytes} || {N, Bytes} <- Files],
                       Archive = whittle_board_cpio:archive([{directory, <<"d">>} | Entries]),
                       byte_size(Archive) rem 4 =:= 0 andalso
                           unpacked(Archive) =:= [{<<"d">>, <<>>}
                                                  | [{N, B} || {file, N, _, B} <- Entries]]
               end).

unpacked(<<"070701", Fields:104/binary, Rest/binary>>) ->
    Numbers = [binary_to_integer(Field, 16) || <<Field:8/binary>> <= Fields],
    Size = lists:nth(7, Numbers),
    Named = lists:nth(12, Numbers),
    Length = Named - 1,
    Gap = -(110 + Named) band 3,
    End = -Size band 3,
    <<Name:Length/binary, 0, _:Gap/binary, Bytes:Size/binary, _:End/binary, More/binary>> = Rest,
    case Name of
        <<"TRAILER!!!">> -> [];
        _ -> [{Name, Bytes} | unpacked(More)]
    end.

label(_) ->
    made:holds(200, {proper_types:binary(), proper_types:list(proper_types:non_neg_integer()),
                     %% Only an image with a network has this key.
                     proper_types:oneof([#{}, #{network => <<"dhcp">>}])},
               fun({Image, Raws, Network}) ->
                       Parts = [#{name => <<"rest">>, stored => byte_size(Image), raw => 1}
                                | [#{name => <<"a part">>, stored => 0, raw => Raw}
                                   || Raw <- Raws]],
                       Words = maps:merge(words(), Network),
                       Labeled = whittle_board_label:add(Image, Words#{parts => Parts}),
                       {ok, #{parts := Read} = Label} = whittle_board_label:read(Labeled),
                       maps:remove(parts, Label) =:= Words
                           andalso lists:droplast(Read) =:= Parts
                           andalso lists:sum([S || #{stored := S} <- Read]) =:= byte_size(Labeled)
               end).

words() -> #{board => <<"qemu-arm">>, target => <<"armv7">>, name => <<"n">>, version => <<"1">>}.

%% Any bytes before the mark give an error.
hostile_label(_) ->
    made:holds(1000, {proper_types:binary(), proper_types:integer(0, 16#ffffffff)},
               fun({Bytes, Size}) ->
                       Ends = [<<>>, <<"Whittle image 1\n">>,
                               <<Size:32, "Whittle image 1\n">>,
                               <<(byte_size(Bytes)):32, "Whittle image 1\n">>],
                       lists:all(fun(End) ->
                                         {error, _} = whittle_board_label:read(<<Bytes/binary,
                                                                                 End/binary>>),
                                         true
                                 end, Ends)
               end).

%% A change of any byte before the label, and a cut at any place, is noticed.
changed_image(_) ->
    Image = rand:bytes(300),
    Parts = [#{name => <<"all">>, stored => 300, raw => 300}],
    Good = whittle_board_label:add(Image, (words())#{parts => Parts}),
    {ok, _} = whittle_board_label:read(Good),
    [begin
         <<Before:At/binary, Byte, After/binary>> = Good,
         Other = whittle_board_label:read(<<Before/binary, (Byte bxor 1), After/binary>>),
         At < 300 andalso ?assertEqual({error, damaged}, Other),
         ?assertMatch({error, _}, whittle_board_label:read(Before))
     end || At <- lists:seq(0, byte_size(Good) - 1)].

files(Config) ->
    Dir = proplists:get_value(dir, Config),
    Image = filename:join(Dir, "a.img"),
    Parts = [#{name => <<"all">>, stored => 5, raw => 5}],
    ok = file:write_file(Image, whittle_board_label:add(<<"image">>, (words())#{parts => Parts})),
    ?assertEqual(image, whittle_board:kind(Image)),
    ?assertEqual(ok, whittle_board:check_output(Image)),
    ?assertMatch({ok, #{name := <<"n">>}}, whittle_board:label(Image)),
    %% The emulator makes a socket in the place of another file.
    Letter = filename:join(Dir, "letter"),
    ok = file:write_file(Letter, "mine"),
    [?assertEqual({error, {no_socket, Letter}}, whittle_board:emulator(Image, Option))
     || Option <- [#{monitor => Letter}, #{serial => {unix, Letter}}]],
    %% The path of a socket has at most 107 bytes.
    Socket = "/tmp/whittle-board-" ++ os:getpid(),
    {ok, Listen} = gen_tcp:listen(0, [{ifaddr, {local, Socket}}]),
    ?assertEqual({error, {no_socket, Socket}},
                 whittle_board:emulator(Image, #{monitor => Socket})),
    ok = gen_tcp:close(Listen),
    [?assertNotMatch({error, {no_socket, _}}, whittle_board:emulator(Image, #{monitor => Path}))
     || Path <- [Socket, filename:join(Dir, "new")]],
    ok = file:delete(Socket),
    %% A path in the label chooses no emulator.
    {ok, Own} = file:read_file(filename:join([code:priv_dir(whittle_board), "boards",
                                              "qemu-arm.config"])),
    Description = filename:join(proplists:get_value(priv_dir, Config), "own.config"),
    ok = file:write_file(Description, Own),
    ok = file:write_file(Image, whittle_board_label:add(
                                  <<"image">>, (words())#{board => list_to_binary(Description),
                                                          parts => Parts})),
    ?assertMatch({error, {unknown_board, _}}, whittle_board:emulator(Image, #{})),
    ok = file:write_file(Image, whittle_board_label:add(
                                  <<"image">>, (words())#{name => <<255>>, parts => Parts})),
    ?assertEqual({error, {damaged_image, Image}}, whittle_board:label(Image)),
    %% The name of a description becomes a line of the label.
    Strange = filename:join(filename:dirname(Description), "a\nb.config"),
    ok = file:write_file(Strange, Own),
    ?assertMatch({error, {bad_board, _}}, whittle_board:board(Strange)),
    Text = filename:join(Dir, "text"),
    ok = file:write_file(Text, "a letter"),
    [?assertEqual({File, other}, {File, whittle_board:kind(File)})
     || File <- [Text, Dir, filename:join(Dir, "none"), "/bin/sh"]],
    {error, Ours} = whittle_board:check_output(Text),
    said(Ours, "exists and is no image or card of a board: name another file with -o"),
    {error, NoImage} = whittle_board:label(Text),
    said(NoImage, "is no image of a board"),
    {error, Pack} = whittle_board:check_output(filename:join(Dir, "none/a.img")),
    ?assertMatch({pack, _}, Pack).

%% A file that begins with a kernel and does not end with a label is a cut image, or the kernel of
%% somebody else, which no build replaces.
cut_files(Config) ->
    File = filename:join(proplists:get_value(dir, Config), "a.img"),
    [begin
         Kernel = <<0:At/unit:8, Mark/binary, 0:2000/unit:8>>,
         Parts = [#{name => <<"all">>, stored => byte_size(Kernel), raw => byte_size(Kernel)}],
         Whole = whittle_board_label:add(Kernel, (words())#{parts => Parts}),
         ok = file:write_file(File, Whole),
         ?assertEqual({At, image}, {At, whittle_board:kind(File)}),
         [begin
              ok = file:write_file(File, Bytes),
              ?assertEqual({At, cut}, {At, whittle_board:kind(File)}),
              {error, Cut} = whittle_board:label(File),
              said(Cut, "is a cut or damaged image"),
              ?assertMatch({error, {not_ours, File}}, whittle_board:check_output(File))
          end || Bytes <- [binary:part(Whole, 0, byte_size(Whole) - 1), Kernel,
                           binary:part(Kernel, 0, At + byte_size(Mark)), <<Whole/binary, 0>>]]
     end || {At, Mark} <- [{36, <<16#18, 16#28, 16#6F, 1>>}, {56, <<"ARM\x64">>},
                           {56, <<"RSC\x05">>}, {514, <<"HdrS">>},
                           {0, <<(gzip())/binary, "Image", 0>>}]],
    ok = file:write_file(File, <<(gzip())/binary, "picture", 0>>),
    ?assertEqual(other, whittle_board:kind(File)).

%% The head of gzip -9 for a file of the date 1, which has a name.
gzip() -> <<16#1F, 16#8B, 8, 8, 1, 0, 0, 0, 2, 3>>.

command(_) ->
    {ok, Board} = whittle_board:board("qemu-arm"),
    Words = whittle_board_emulator:command(Board, "a.img", #{}),
    ?assertMatch(["qemu-system-arm" | _], Words),
    ?assertEqual("16M", after_word("-m", Words)),
    ?assertEqual("a.img", after_word("-kernel", Words)),
    ?assert(lists:member("null,id=serial", Words)),
    ?assertNot(lists:member("-no-reboot", Words)),
    ?assertEqual("user,id=network", after_word("-netdev", Words)),
    Forwards = whittle_board_emulator:command(Board, "a", #{forward => [{8080, 80}, {7000, 7000}]}),
    ?assertEqual("user,id=network,hostfwd=tcp:127.0.0.1:8080-:80,hostfwd=tcp:127.0.0.1:7000-:7000",
                 after_word("-netdev", Forwards)),
    Bare = whittle_board_emulator:command(Board#{emulator := ["qemu"]}, "a", #{}),
    ?assertNot(lists:member("-netdev", Bare)),
    More = whittle_board_emulator:command(Board, "a.img",
                                          #{memory => 24, serial => {unix, "/a,b"}, reboot => false,
                                            monitor => "/m"}),
    ?assertEqual("24M", after_word("-m", More)),
    ?assertEqual("unix:/m,server=on,wait=off", after_word("-monitor", More)),
    ?assert(lists:member("socket,path=/a,,b,server=on,wait=off,id=serial", More)),
    ?assert(lists:member("-no-reboot", More)).

after_word(Word, [Word, Next | _]) -> Next;
after_word(Word, [_ | Words]) -> after_word(Word, Words).

sizes(_) ->
    ?assertEqual([{ok, 24}, {ok, 1024}, error, error, error, error],
                 [whittle_board:memory(T) || T <- ["24M", "1G", "24", "0M", "24M\n", "1000000M"]]),
    ?assertEqual([{ok, pty}, {ok, {tcp, 7000}}, {ok, {unix, "/x"}}, error, error, error, error],
                 [whittle_board:serial(T) || T <- ["pty", "tcp:7000", "unix:/x", "unix:", "tcp:0",
                                                   "tcp:7000,wait=on", "udp"]]),
    ?assertEqual([{ok, [{7000, 7000}]}, {ok, [{8080, 80}, {1, 65535}]}, error, error, error, error,
                  error],
                 [whittle_board:forward(T) || T <- ["7000", "8080:80,1:65535", "", "0", "65536",
                                                    "7000:", "7000,wait=on"]]).

%% Each error is one line without a period at its end.
errors(_) ->
    Link = {link, #{tail => [<<"ld: no">>]}},
    ?assertEqual([<<"ld: no">>], whittle_board:details(Link)),
    [begin
         Text = lists:flatten(unicode:characters_to_list(whittle_board:format_error(Error))),
         ?assertNot(lists:member($\n, Text)),
         ?assertNotEqual($., lists:last(Text))
     end || Error <- [Link, {no_place, {"/tmp", enospc}}, {unreadable, {"a", enoent}},
                      {damaged_image, "a"}, {cut_image, "a"}, {no_network, "a"}, {no_socket, "a"},
                      {no_emulator, #{board => "b", program => "qemu-system-arm"}}]].

said(Reason, Part) ->
    Text = unicode:characters_to_list(whittle_board:format_error(Reason)),
    ?assertNotEqual({nomatch, Text}, {string:find(Text, Part), Text}).
