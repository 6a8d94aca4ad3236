%% @doc Takes the account of a program over its serial console.
%%
%% The program contains the application whittle_console, which answers a request with lines of text
%% ({@link whittle_tune_lines}). Lines that are lost on their way are asked for again.
%% @hidden
-module(whittle_tune_serial).

-include_lib("kernel/include/file.hrl").

-export([account/2, account/3, format_error/1]).

-export_type([error/0, event/0, patience/0]).

%% The lines of the answer that have come, and all of them.
-type event() :: {console, non_neg_integer(), pos_integer()}.

-type error() :: {no_line, string(), term()}
               | {bad_line, string()}
               | {line_ended, string()}
               | {no_console, string(), pos_integer(), binary()}    % milliseconds, the last line
               | {lost_lines, string(), pos_integer(), pos_integer()}
               | {noisy_line, string()}
               | {bad_answer, string()}
               | {no_proc, string()}.

%% Milliseconds.
-type patience() ::
        #{first => pos_integer(),               % until the first line comes; default: 20 s
          next => pos_integer(),                % between two lines of the answer; default: 5 s
          all => pos_integer()}.                % default: 10 minutes

-define(PATIENCE, #{first => 20_000, next => 5_000, all => 600_000}).
-define(RATE, 115_200).
-define(CONNECT_MS, 10_000).
-define(SEND_MS, 10_000).
%% The first request may meet a line that noise has begun, so it comes again after a part of the
%% patience.
-define(FIRST_TRIES, 3).
%% Requests in a row that bring no new line.
-define(TRIES, 4).

-define(NO_CHANGES, "A console does not show which changes to the program's code would save "
        "memory. To measure these: `whittle tune --explain PATH'").

%% @doc Takes the account. The line is the path of a serial device, perhaps with `:RATE' (default:
%% 115200), or `tcp:HOST:PORT' or `unix:PATH', as emulators offer a serial line.
-spec account(string(), fun((event()) -> term())) ->
          {ok, whittle_measure_account:account()} | {error, error()}.
account(Name, Tell) -> account(Name, Tell, #{}).

%% @doc Takes the account like {@link account/2}, with another patience.
-spec account(string(), fun((event()) -> term()), patience()) ->
          {ok, whittle_measure_account:account()} | {error, error()}.
account(Name, Tell, Patience) ->
    whittle_work:steps(
      [fun(_) -> opened(Name) end,
       fun(Line) ->
               Ask = (maps:merge(?PATIENCE, Patience))#{name => Name, line => Line, tell => Tell},
               try asked(Ask)
               after closed(Line)
               end
       end,
       fun(Answer) -> made(Name, Answer) end]).

%% Internal functions: the line

opened("tcp:" ++ Address = Name) ->
    case string:split(Address, ":", trailing) of
        [Host, Text] when Host =/= "" ->
            case string:to_integer(Text) of
                {Port, ""} when Port > 0, Port < 65536 -> socket(Name, Host, Port);
                _ -> {error, {bad_line, Name}}
            end;
        _ -> {error, {bad_line, Name}}
    end;
opened("unix:" ++ Path = Name) when Path =/= "" -> socket(Name, {local, Path}, 0);
opened(Name) ->
    {Path, Rate} = with_rate(Name),
    case is_other_file(Path) orelse whittle_serial:open(Path, [{rate, Rate}, {active, false}]) of
        true -> {error, {bad_line, Name}};
        {ok, Serial} -> {ok, {whittle_serial, Serial}};
        %% A device that is no serial line
        {error, enotty} -> {error, {bad_line, Name}};
        {error, Reason} -> {error, {no_line, Name, Reason}}
    end.

%% The library also takes a name in /dev, which is no file here.
is_other_file(Path) ->
    case file:read_file_info(Path) of
        {ok, #file_info{type = Type}} -> Type =/= device;
        {error, _} -> false
    end.

%% The name of a device may contain colons, as those below /dev/serial/by-path do.
with_rate(Name) ->
    case {file:read_file_info(Name), string:split(Name, ":", trailing)} of
        {{error, _}, [Path, Text]} ->
            case string:to_integer(Text) of
                {Rate, ""} when Rate > 0 -> {Path, Rate};
                _ -> {Name, ?RATE}
            end;
        _ -> {Name, ?RATE}
    end.

socket(Name, Address, Port) ->
    %% The path of a socket has at most 107 bytes; a longer one is `badarg'.
    try gen_tcp:connect(Address, Port, [binary, {active, false}, {send_timeout, ?SEND_MS}],
                        ?CONNECT_MS) of
        {ok, Socket} -> {ok, {gen_tcp, Socket}};
        {error, Reason} -> {error, {no_line, Name, Reason}}
    catch
        exit:badarg -> {error, {bad_line, Name}}
    end.

sent(Data, {whittle_serial, Serial}) -> whittle_serial:send(Serial, Data, ?SEND_MS);
sent(Data, {gen_tcp, Socket}) -> gen_tcp:send(Socket, Data).

received({Module, Line}, Milliseconds) -> Module:recv(Line, 0, Milliseconds).

closed({Module, Line}) -> Module:close(Line).

%% Internal functions: questions

asked(#{all := All} = Ask) ->
    Id = string:lowercase(binary:encode_hex(crypto:strong_rand_bytes(4))),
    Until = now_ms() + All,
    ask(?FIRST_TRIES, whittle_tune_lines:new(Id), Ask#{until => Until}).

%% Asks, and reads until the answer is complete, its last line has come, or the line is silent.
ask(Tries, Before, #{name := Name, line := Line, first := First, next := Next} = Ask) ->
    {Request, Lines} = whittle_tune_lines:request(account, Before),
    {_, Had, _} = whittle_tune_lines:state(Lines),
    Wait = case Had of
               0 -> First div ?FIRST_TRIES;
               _ -> Next
           end,
    case sent(Request, Line) of
        ok ->
            case read(Lines, now_ms() + Wait, Ask) of
                {ok, Read} -> judged(Tries, Had, Read, Ask);
                {error, _} = Error -> Error
            end;
        {error, _} -> {error, {line_ended, Name}}
    end.

judged(Tries, Had, Lines, #{name := Name, line := Line, first := First, until := Until} = Ask) ->
    Late = now_ms() >= Until,
    case whittle_tune_lines:state(Lines) of
        {complete, _, _} ->
            {Done, _} = whittle_tune_lines:request(done, Lines),
            _ = sent(Done, Line),
            case whittle_tune_lines:decode(Lines) of
                {ok, _} = Ok -> Ok;
                {error, bad_answer} -> {error, {bad_answer, Name}}
            end;
        {none, _, _} when Tries =< 1; Late ->
            {error, {no_console, Name, First, whittle_tune_lines:last(Lines)}};
        {none, _, _} -> ask(Tries - 1, Lines, Ask);
        {_, Got, Of} when Got =:= Had, Tries =< 1; Late ->
            {error, {lost_lines, Name, Of - Got, Of}};
        {_, Got, _} when Got =:= Had -> ask(Tries - 1, Lines, Ask);
        _ -> ask(?TRIES, Lines, Ask)
    end.

%% `Silent' is the time at which the wait for a new line of the answer ends.
read(Lines, Silent, #{name := Name, line := Line, next := Next, tell := Tell,
                      until := Until} = Ask) ->
    {_, Had, _} = whittle_tune_lines:state(Lines),
    Left = min(Silent, Until) - now_ms(),
    case Left > 0 andalso received(Line, Left) of
        false -> {ok, Lines};
        {ok, Bytes} ->
            Read = whittle_tune_lines:feed(Bytes, Lines),
            case whittle_tune_lines:state(Read) of
                {partial, Had, _} -> read(Read, Silent, Ask);
                {partial, Got, Of} ->
                    _ = Tell({console, Got, Of}),
                    read(Read, now_ms() + Next, Ask);
                {none, _, _} -> read(Read, Silent, Ask);
                _ -> {ok, Read}
            end;
        {error, timeout} -> {ok, Lines};
        {error, enomem} -> {error, {noisy_line, Name}};
        {error, _} -> {error, {line_ended, Name}}
    end.

now_ms() -> erlang:monotonic_time(millisecond).

%% Internal functions: the account

made(Name, #{smaps := <<>>}) -> {error, {no_proc, Name}};
made(Name, #{word := Word, program := Program, smaps := Smaps, threads := Threads,
             texts := Texts}) ->
    %% The text names the word size as a dump does.
    Head = case Word of
               8 -> <<"[64-bit]">>;
               4 -> <<>>
           end,
    Vm = whittle_measure_dump:parse(iolist_to_binary([Head | [[$\n, Text] || Text <- Texts]])),
    %% The kernel writes `smaps' without a fault, but this one came over a line.
    try whittle_measure_kernel:parse(Smaps, Program, whittle_measure_kernel:pointers(Threads),
                                     fun(_, _) -> unknown end) of
        Kernel ->
            {ok, (whittle_measure_account:make(Vm, Kernel))
             #{changes => #{changes => [], notes => [?NO_CHANGES]}}}
    catch error:_ -> {error, {bad_answer, Name}}
    end.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({bad_line, Name}) ->
    [Name, " is no serial line: give /dev/NAME, /dev/NAME:RATE, tcp:HOST:PORT or unix:PATH"];
format_error({no_line, Name, Reason}) ->
    [Name, " cannot be opened (", reason(Reason), "): name the serial line of the program's "
     "console, and end other programs that use it"];
format_error({line_ended, Name}) ->
    [Name, " closed before the answer was complete: connect the line again, and repeat the "
     "command"];
format_error({noisy_line, Name}) ->
    [Name, " sends more than Whittle can read: look at the output of the program"];
format_error({no_console, Name, Milliseconds, Last}) ->
    io_lib:format("the program at ~ts did not answer within ~b s~ts: ~ts",
                  [Name, Milliseconds div 1000,
                   case Last of
                       <<>> -> "";
                       _ -> [" (its last line is `", whittle_file_name:printable(Last), "')"]
                   end, remedy(Last)]);
format_error({lost_lines, Name, Lost, Of}) ->
    io_lib:format("~b of ~b lines of the answer from ~ts were lost or damaged, each time: correct "
                  "the rate or the cable, or let the program log less to the console",
                  [Lost, Of, Name]);
format_error({bad_answer, Name}) ->
    ["the answer from ", Name, " is no account: use the same version of Whittle for the program "
     "and for this command"];
format_error({no_proc, Name}) ->
    ["the machine at ", Name, " has no /proc, so its kernel does not tell where the memory is: "
     "mount it (mount -t proc proc /proc)"].

%% A shell answers with its prompt.
remedy(Last) ->
    case re:run(Last, "([>$#]|login:|Password:)$", [{capture, none}]) of
        match -> "a shell has the console; look at the node with --node instead, or start the "
                     "program with -noshell and the application whittle_console";
        nomatch -> "list the application whittle_console in the program's .app file, and compare "
                       "the rate (docs/tune.md of Whittle's source)"
    end.

reason(Reason) when is_atom(Reason) -> inet:format_error(Reason);
reason(Reason) -> whittle_serial:format_error(Reason).
