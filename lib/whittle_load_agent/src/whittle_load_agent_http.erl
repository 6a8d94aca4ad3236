%% @doc Speaks HTTP/1.1 with persistent connections (RFC 9112).
%%
%% Steps: `{request, Method, Path, Type, Body, Status}' sends a request and waits for the whole
%% response. Type is the media type of the body, or `none'. The step fails if the response has
%% another status; `any' stands for all below 400. `{keep, Request}' does the same, and keeps the
%% body of the response for the steps `take'. OTP's own `decode_packet' parses the lines.
%% @hidden
-module(whittle_load_agent_http).
-behaviour(whittle_load_agent_client).

-export([init/2, step/3, data/2, closed/1, match/2, text/1]).

-import(whittle_load_agent_text, [fill/2, lower/1]).

-record(http, {host :: binary(),
               headers :: [{binary(), whittle_load_agent:text()}],
               method = <<>> :: binary(),             % of the request that waits for its response
               buffer = <<>> :: binary(),
               part = status :: part(),
               status = 0 :: non_neg_integer(),
               body = until_close :: body(),          % according to the fields so far
               %% The pieces of the body, last first, and the bytes that may still come
               kept = none :: none | {[binary()], non_neg_integer()},
               last = false :: boolean()}).           % the server closes behind this response

%% Where the next bytes of the response belong
-type part() :: status | fields | {bytes, non_neg_integer()} | chunk | {chunk_bytes, pos_integer()}
              | chunk_end | trailer | rest.

-type body() :: until_close | chunked | {bytes, non_neg_integer()}.

%% The longest line in bytes, and the longest number of digits.
-define(LONGEST, 65_536).
-define(DIGITS, 15).
%% The bytes of a body that stay for `take'.
-define(KEPT, 1_000_000).

%% @private
-spec init(#{host := binary(), headers := [{binary(), whittle_load_agent:text()}], _ => _},
           whittle_load_agent_client:user()) -> #http{}.
init(#{host := Host, headers := Headers}, _) -> #http{host = Host, headers = Headers}.

%% @private
-spec step(term(), whittle_load_agent_client:user(), #http{}) ->
          {await, iodata(), {status, any | 100..599}, #http{}}.
step({keep, Request}, User, State) ->
    {await, Bytes, Await, Next} = step(Request, User, State),
    {await, Bytes, Await, Next#http{kept = {[], ?KEPT}}};
step({request, Method, Path, Type, Body, Status}, User, State) ->
    #http{host = Host, headers = Headers} = State,
    Content = iolist_to_binary(fill(Body, User)),
    Fields = case Type of
                 none -> [];
                 _ -> ["Content-Type: ", fill(Type, User), "\r\nContent-Length: ",
                       integer_to_list(byte_size(Content)), "\r\n"]
             end,
    {await, [Method, $\s, fill(Path, User), " HTTP/1.1\r\nHost: ", Host, "\r\n",
             [[Name, ": ", fill(Value, User), "\r\n"] || {Name, Value} <- Headers], Fields, "\r\n",
             Content],
     {status, Status},
     State#http{method = Method, part = status, body = until_close, kept = none, last = false}}.

%% @private
-spec data(binary(), #http{}) ->
          {ok, [whittle_load_agent_client:event()], [], #http{}} | {error, atom()}.
data(Bytes, #http{buffer = Buffer} = State) ->
    case read(<<Buffer/binary, Bytes/binary>>, State, []) of
        {ok, Events, #http{buffer = Rest}} when byte_size(Rest) > ?LONGEST, Events =:= [] ->
            {error, too_long};
        {ok, Events, #http{buffer = Rest} = Next} ->
            %% A copy, because the rest would keep the whole message.
            {ok, lists:reverse(Events), [], Next#http{buffer = binary:copy(Rest)}};
        {error, _} = Error -> Error
    end.

read(Bytes, #http{part = status} = State, Events) ->
    case erlang:decode_packet(http_bin, Bytes, [{line_length, ?LONGEST}]) of
        {ok, {http_response, Version, Status, _}, Rest} when Status >= 100, Status =< 599 ->
            read(Rest, State#http{part = fields, status = Status, body = until_close,
                                  last = Version =/= {1, 1}}, Events);
        {more, _} -> {ok, Events, State#http{buffer = Bytes}};
        _ -> {error, no_http}
    end;
read(Bytes, #http{part = fields} = State, Events) ->
    case erlang:decode_packet(httph_bin, Bytes, [{line_length, ?LONGEST}]) of
        {ok, {http_header, _, Name, _, Value}, Rest} ->
            case field(Name, Value, State) of
                {error, _} = Error -> Error;
                Next -> read(Rest, Next, Events)
            end;
        {ok, http_eoh, Rest} -> read(Rest, begun(State), Events);
        {more, _} -> {ok, Events, State#http{buffer = Bytes}};
        _ -> {error, no_http}
    end;
read(Bytes, #http{part = {bytes, 0}} = State, Events) ->
    complete(Bytes, State, Events);
read(Bytes, #http{part = {bytes, Left}} = State, Events) ->
    case Bytes of
        <<Last:Left/binary, Rest/binary>> -> complete(Rest, keep(Last, State), Events);
        _ ->
            {ok, Events, (keep(Bytes, State))#http{part = {bytes, Left - byte_size(Bytes)},
                                                   buffer = <<>>}}
    end;
read(Bytes, #http{part = chunk} = State, Events) ->
    case line(Bytes) of
        {Line, Rest} ->
            case size_of_chunk(Line) of
                0 -> read(Rest, State#http{part = trailer}, Events);
                Size when is_integer(Size) ->
                    read(Rest, State#http{part = {chunk_bytes, Size}}, Events);
                error -> {error, no_http}
            end;
        more -> {ok, Events, State#http{buffer = Bytes}}
    end;
read(Bytes, #http{part = {chunk_bytes, Left}} = State, Events) ->
    case Bytes of
        <<Last:Left/binary, Rest/binary>> ->
            read(Rest, (keep(Last, State))#http{part = chunk_end}, Events);
        _ ->
            {ok, Events, (keep(Bytes, State))#http{part = {chunk_bytes, Left - byte_size(Bytes)},
                                                   buffer = <<>>}}
    end;
read(Bytes, #http{part = chunk_end} = State, Events) ->
    case line(Bytes) of
        {<<>>, Rest} -> read(Rest, State#http{part = chunk}, Events);
        more -> {ok, Events, State#http{buffer = Bytes}};
        _ -> {error, no_http}
    end;
read(Bytes, #http{part = trailer} = State, Events) ->
    case line(Bytes) of
        {<<>>, Rest} -> complete(Rest, State, Events);
        {_, Rest} -> read(Rest, State, Events);
        more -> {ok, Events, State#http{buffer = Bytes}}
    end;
read(Bytes, #http{part = rest} = State, Events) ->
    {ok, Events, (keep(Bytes, State))#http{buffer = <<>>}}.

keep(_, #http{kept = none} = State) -> State;
keep(Bytes, #http{kept = {Pieces, Left}} = State) ->
    Size = min(byte_size(Bytes), Left),
    State#http{kept = {[binary:part(Bytes, 0, Size) | Pieces], Left - Size}}.

%% The body behind its response, if a step takes a part of it
body(#http{kept = none}) -> none;
body(#http{kept = {Pieces, _}}) -> iolist_to_binary(lists:reverse(Pieces)).

%% A response that follows without a request, such as a 408, is no answer to the next request.
complete(Rest, #http{method = Method, status = Status, last = Last} = State, Events) ->
    Next = State#http{part = status, method = <<>>, kept = none, buffer = Rest},
    Done = [case Method of
                <<>> -> {unasked, Status};
                _ -> {response, Status, Last, body(State)}
            end | Events],
    case Rest of
        <<>> -> {ok, Done, Next};
        _ -> read(Rest, Next, Done)
    end.

%% RFC 9112, section 6.3
begun(#http{status = Status} = State) when Status < 200 -> State#http{part = status};
begun(#http{method = <<"HEAD">>} = State) -> State#http{part = {bytes, 0}};
begun(#http{status = Status} = State) when Status =:= 204; Status =:= 304 ->
    State#http{part = {bytes, 0}};
begun(#http{body = chunked} = State) -> State#http{part = chunk};
begun(#http{body = {bytes, _} = Body} = State) -> State#http{part = Body};
begun(State) -> State#http{part = rest, last = true}.

%% Transfer-Encoding overrides Content-Length.
field('Content-Length', Value, #http{body = until_close} = State) ->
    case re:run(Value, "^[0-9]+$", [{capture, none}]) of
        match when byte_size(Value) =< ?DIGITS ->
            State#http{body = {bytes, binary_to_integer(Value)}};
        _ -> {error, no_http}
    end;
field('Transfer-Encoding', Value, State) ->
    case lower(Value) of
        <<"chunked">> -> State#http{body = chunked};
        _ -> {error, unknown_coding}
    end;
field('Connection', Value, State) ->
    case lower(Value) of
        <<"close">> -> State#http{last = true};
        <<"keep-alive">> -> State#http{last = false};
        _ -> State
    end;
field(_, _, State) -> State.

line(Bytes) ->
    case binary:split(Bytes, <<"\r\n">>) of
        [Line, Rest] -> {Line, Rest};
        [_] -> more
    end.

%% An extension may follow the size.
size_of_chunk(Line) ->
    case re:run(Line, "^([0-9A-Fa-f]{1,12})[ \t]*(;.*)?$", [{capture, [1], binary}]) of
        {match, [Size]} -> binary_to_integer(Size, 16);
        nomatch -> error
    end.

%% @private A server may close a connection between two requests, and the end of a connection may be
%% the end of a response.
-spec closed(#http{}) -> {ok, [whittle_load_agent_client:event()]} | {error, closed}.
closed(#http{part = rest, status = Status} = State) ->
    {ok, [{response, Status, true, body(State)}]};
closed(#http{part = status, method = <<>>}) -> {ok, []};
closed(_) -> {error, closed}.

%% @private
-spec match({status, any | 100..599}, whittle_load_agent_client:event()) ->
          boolean() | last | {error, binary()}.
match({status, Expected}, {response, Status, Last, _}) when Status =:= Expected;
                                                            Expected =:= any, Status < 400 ->
    case Last of true -> last; false -> true end;
match(_, {unasked, _}) -> false;
match(_, {response, Status, _, _}) -> {error, <<"status_", (integer_to_binary(Status))/binary>>}.

%% @private
-spec text(whittle_load_agent_client:event()) -> iodata().
text({response, _, _, Body}) -> Body.
