%% @doc Answers the requests of `whittle tune --explain --serial' on the console of a program.
%%
%% If the program does not read its standard input, it lists `whittle_console' among its
%% applications, and nothing else is to do. If the program reads its input itself, it sets the
%% application's environment `read' to `false', and gives each line to {@link answer/1}:
%%
%% ```
%% case whittle_console:answer(Line) of
%%     {ok, Answer} -> lists:foreach(fun io:put_chars/1, Answer);
%%     no -> command(Line)
%% end
%% '''
%%
%% A request is a line. The answer is some hundred lines of text, each with its number and a
%% checksum, so other lines of the program may stand between them, and the asker can ask again for
%% those that were lost. README.md describes the lines.
-module(whittle_console).
-behaviour(gen_server).

-export([answer/1]).
-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% The answer stays for lines that the asker lacks, until the asker has all.
-define(KEEP_MS, 60_000).
%% A busy machine takes long to describe many processes.
-define(CALL_MS, 120_000).

-type kept() :: none | {binary(), tuple()}.     % the name of the request, and its lines

%% @doc Answers a line that the program has read. The answer is `no' if the line is no request, or
%% if the application does not run. Print each element of the list by a call of its own: then
%% other output of the program can stand between them, and does not wait for all.
-spec answer(unicode:chardata()) -> {ok, [iodata()]} | no.
answer(Line) ->
    case whittle_console_line:request(Line) of
        {ok, Request} ->
            try gen_server:call(?MODULE, Request, ?CALL_MS)
            catch exit:_ -> no
            end;
        no -> no
    end.

%% @private
-spec start_link() -> {ok, pid()} | {error, term()} | ignore.
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @private
-spec init([]) -> {ok, kept()}.
init([]) -> {ok, none}.

%% @private
-spec handle_call(whittle_console_line:request(), gen_server:from(), kept()) ->
          {reply, {ok, [iodata()]}, kept(), timeout() | hibernate}.
handle_call({account, Id}, _, {Id, Lines} = Kept) ->
    {reply, {ok, tuple_to_list(Lines)}, Kept, ?KEEP_MS};
handle_call({account, Id}, _, _) ->
    Lines = whittle_console_line:answer(Id, whittle_console_account:take()),
    {reply, {ok, Lines}, {Id, list_to_tuple(Lines)}, ?KEEP_MS};
handle_call({again, Id, Numbers}, _, {Id, Lines} = Kept) ->
    {reply, {ok, [element(Number, Lines) || Number <- Numbers, Number =< tuple_size(Lines)]}, Kept,
     ?KEEP_MS};
handle_call({done, Id}, _, {Id, _}) ->
    {reply, {ok, []}, none, hibernate};
handle_call({_, _, _}, _, Kept) ->
    {reply, {ok, []}, Kept, ?KEEP_MS};
handle_call({done, _}, _, Kept) ->
    {reply, {ok, []}, Kept, ?KEEP_MS}.

%% @private
-spec handle_cast(term(), kept()) -> {noreply, kept(), timeout()}.
handle_cast(_, Kept) -> {noreply, Kept, ?KEEP_MS}.

%% @private
-spec handle_info(term(), kept()) -> {noreply, kept(), timeout() | hibernate}.
handle_info(timeout, _) -> {noreply, none, hibernate};
handle_info(_, Kept) -> {noreply, Kept, ?KEEP_MS}.
