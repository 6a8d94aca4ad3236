%% @hidden Reads the head of one HTTP request from a socket: the request line and the headers.
%%
%% The socket is raw. The driver's own HTTP mode closes a connection with a line that is too long,
%% and the client would see a reset instead of an answer.
-module(whittle_counters_request).

-export([read/2]).
-export_type([request/0, refusal/0]).

-type request() :: #{method := atom() | binary(),
                     path := binary(),                  % without the query
                     version := {non_neg_integer(), non_neg_integer()},
                     accept := binary()}.               % the Accept header; empty without it

-type refusal() :: 400 | 408 | 414 | 431.
%% The status of the answer to an invalid request.

%% The largest size of the request line and of each header, in bytes.
-define(LINE_BYTES, 8192).
%% The largest size of all headers in bytes, and their largest number.
-define(HEAD_BYTES, 32768).
-define(HEADERS, 100).

%% @doc Reads a request until the deadline, in milliseconds of the monotonic time. The result
%% `closed' means that the connection ended before the request was complete.
-spec read(gen_tcp:socket(), integer()) -> {ok, request()} | {error, refusal() | closed}.
read(Socket, Deadline) ->
    case after_empty(packet(http_bin, <<>>, {Socket, Deadline}, 414), {Socket, Deadline}) of
        {ok, {http_request, Method, Uri, Version}, _, Rest} ->
            headers(Rest, {Socket, Deadline, #{}}, ?HEADERS, ?HEAD_BYTES,
                    #{method => Method, path => path(Uri), version => Version, accept => <<>>});
        {ok, _, _, _} -> {error, 400};
        {error, _} = Error -> Error
    end.

%% Some clients send a line end after the body of their last request. A server ignores one before a
%% request (RFC 9112, 2.2).
after_empty({ok, {http_error, Line}, _, Rest}, From) when Line =:= <<"\r\n">>; Line =:= <<"\n">> ->
    packet(http_bin, Rest, From, 414);
after_empty(Read, _) -> Read.

%% The third part of From has the host and the length of the body, if headers gave them.
headers(Buffer, {Socket, Deadline, Once} = From, Left, Bytes, Request) ->
    case packet(httph_bin, Buffer, {Socket, Deadline}, 431) of
        {ok, http_eoh, _, _} -> with_host(Request, Once);
        {ok, {http_header, _, _, _, _}, Size, _} when Left =:= 0; Size > Bytes -> {error, 431};
        {ok, {http_header, _, 'Accept', _, Value}, Size, Rest} ->
            headers(Rest, From, Left - 1, Bytes - Size, Request#{accept := Value});
        {ok, {http_header, _, Name, _, Value}, Size, Rest}
          when Name =:= 'Host'; Name =:= 'Content-Length' ->
            case once(Name, Value, Once) of
                {ok, Now} ->
                    headers(Rest, {Socket, Deadline, Now}, Left - 1, Bytes - Size, Request);
                error -> {error, 400}
            end;
        {ok, {http_header, _, _, _, _}, Size, Rest} ->
            headers(Rest, From, Left - 1, Bytes - Size, Request);
        {ok, _, _, _} -> {error, 400};
        {error, _} = Error -> Error
    end.

%% A request of HTTP/1.1 has one host (RFC 9112, 3.2).
with_host(#{version := Version}, Once) when Version >= {1, 1}, not is_map_key('Host', Once) ->
    {error, 400};
with_host(Request, _) -> {ok, Request}.

%% Two lengths let a client smuggle a request past a proxy (RFC 9112, 6.3). The same length twice is
%% allowed.
once('Host', _, #{'Host' := _}) -> error;
once('Host', Value, Once) -> {ok, Once#{'Host' => Value}};
once('Content-Length', Value, Once) ->
    case {length_of(Value), Once} of
        {{ok, Length}, #{'Content-Length' := Other}} when Length =/= Other -> error;
        {{ok, Length}, _} -> {ok, Once#{'Content-Length' => Length}};
        {error, _} -> error
    end.

%% A proxy may have joined equal headers: `5, 5'.
length_of(Value) ->
    case lists:usort([length_in(Part) || Part <- binary:split(Value, <<",">>, [global])]) of
        [Length] when is_integer(Length) -> {ok, Length};
        _ -> error
    end.

length_in(Part) ->
    case re:run(Part, "^[ \t]*([0-9]+)[ \t]*$", [{capture, [1], binary}]) of
        {match, [Digits]} -> binary_to_integer(Digits);
        nomatch -> error
    end.

%% Reads one line. The result has the line, its size, and the bytes after it.
packet(Type, Buffer, {Socket, Deadline} = From, TooLong) ->
    case erlang:decode_packet(Type, Buffer, []) of
        {ok, _, Rest} when byte_size(Buffer) - byte_size(Rest) > ?LINE_BYTES -> {error, TooLong};
        {ok, Packet, Rest} -> {ok, Packet, byte_size(Buffer) - byte_size(Rest), Rest};
        {more, _} when byte_size(Buffer) > ?LINE_BYTES -> {error, TooLong};
        {more, _} ->
            Left = max(0, Deadline - erlang:monotonic_time(millisecond)),
            case gen_tcp:recv(Socket, 0, Left) of
                {ok, Data} -> packet(Type, <<Buffer/binary, Data/binary>>, From, TooLong);
                {error, timeout} -> {error, 408};
                {error, _} -> {error, closed}
            end;
        {error, _} -> {error, 400}
    end.

path({abs_path, Path}) -> hd(binary:split(Path, <<"?">>));
path({absoluteURI, _, _, _, Path}) -> path({abs_path, Path});
path(_) -> <<>>.
