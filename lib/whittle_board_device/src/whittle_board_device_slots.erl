%% @doc Lets one caller at a time change the card. The process exists only if the program started
%% from a card.
%% @hidden
-module(whittle_board_device_slots).
-behaviour(gen_server).

-export([start_link/0, call/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([request/0]).

-type request() :: info | confirm | start | {write, reference(), iodata()} | {finish, reference()}
                 | {cancel, reference()}.

%% The card, and the image that some process installs. The reference is the monitor of that process.
-type state() :: #{image := none | {reference(), whittle_board_device_card:card(),
                                    whittle_board_device_card:image()}}.

%% @doc Starts the process.
-spec start_link() -> {ok, pid()} | {error, term()} | ignore.
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Makes a request. A slow card may take minutes for it.
-spec call(request()) -> term().
call(Request) ->
    case whittle_board_device_card:is_here() of
        true ->
            try gen_server:call(?MODULE, Request, infinity)
            catch
                exit:{Reason, _} when Reason =:= noproc; Reason =:= normal; Reason =:= shutdown ->
                    {error, {not_started, whittle_board_device}}
            end;
        false -> {error, no_card}
    end.

%% @private
-spec init([]) -> {ok, state()}.
init([]) -> {ok, #{image => none}}.

%% @private
-spec handle_call(request(), gen_server:from(), state()) -> {reply, term(), state()}.
handle_call(info, _, State) -> {reply, opened(fun whittle_board_device_card:info/1), State};
handle_call(confirm, _, State) -> {reply, opened(fun whittle_board_device_card:confirm/1), State};
handle_call(start, {Caller, _}, #{image := none} = State) ->
    case whittle_board_device_card:open() of
        {ok, Card} ->
            case whittle_board_device_card:start(Card) of
                {ok, Image} ->
                    Mark = monitor(process, Caller),
                    {reply, {ok, Mark}, State#{image := {Mark, Card, Image}}};
                {error, _} = Error ->
                    ok = whittle_board_device_card:close(Card),
                    {reply, Error, State}
            end;
        {error, _} = Error -> {reply, Error, State}
    end;
handle_call(start, _, State) -> {reply, {error, busy}, State};
handle_call({write, Mark, Bytes}, _, #{image := {Mark, Card, Image}} = State) ->
    case whittle_board_device_card:write(Image, Bytes) of
        {ok, Next} -> {reply, ok, State#{image := {Mark, Card, Next}}};
        {error, _} = Error -> {reply, Error, ended(State)}
    end;
handle_call({finish, Mark}, _, #{image := {Mark, _, Image}} = State) ->
    {reply, whittle_board_device_card:finish(Image), ended(State)};
handle_call({cancel, Mark}, _, #{image := {Mark, _, _}} = State) -> {reply, ok, ended(State)};
handle_call(_, _, State) -> {reply, {error, ended}, State}.

%% @private
-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_, State) -> {noreply, State}.

%% @private
-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({'DOWN', Mark, _, _, _}, #{image := {Mark, _, _}} = State) -> {noreply, ended(State)};
handle_info(_, State) -> {noreply, State}.

opened(Fun) ->
    case whittle_board_device_card:open() of
        {ok, Card} ->
            Result = Fun(Card),
            ok = whittle_board_device_card:close(Card),
            Result;
        {error, _} = Error -> Error
    end.

ended(#{image := {Mark, Card, _}} = State) ->
    true = demonitor(Mark, [flush]),
    ok = whittle_board_device_card:close(Card),
    State#{image := none}.
