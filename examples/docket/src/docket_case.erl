%% @doc Holds one case: who owns it, what it is about, who takes part, which documents belong to it.
%%
%% Each change gives the case its next version. A writer names the version that it has seen, so two
%% people who edit at the same time cannot overwrite each other's work. All functions are pure.
%% @hidden
-module(docket_case).

-export([new/3, change/3, attach/3, detach/3]).
-export([table/1, newest/0, upgraded/1, fitted/2, is_row/1, is_key/1, is_list_of/2, key/1,
         version/1, document/2, numbers/1, shows/2, view/1]).

-export_type(['case'/0, key/0, owner/0, fields/0, party/0, document/0, document_number/0,
              version/0, filter/0]).

-type owner() :: binary().
-type key() :: {owner(), docket_id:id()}.
-type version() :: pos_integer().
-type party() :: {Name :: binary(), Role :: binary()}.
%% The number of a document within its case: the version that the case got with it.
-type document_number() :: version().
-type document() :: {document_number(), Name :: binary(), Type :: binary(),
                     Bytes :: non_neg_integer()}.
%% All fields for a new case, some for a change.
-type fields() :: #{title => binary(), parties => [party()], state => open | closed}.
%% A case must meet all parts. `text': the title or the name of a party contains it; upper case and
%% lower case are the same.
-type filter() :: #{state => open | closed, text => binary()}.

-record(docket_case, {key :: key(),
                      version :: version(),
                      state = open :: open | closed,
                      opened :: Milliseconds :: integer(),
                      changed :: Milliseconds :: integer(),
                      title :: binary(),
                      parties :: [party()],
                      documents = [] :: [document()],       % latest first
                      %% Since version 2 of the rows
                      closed = none :: none | (Milliseconds :: integer())}).
-opaque 'case'() :: #docket_case{}.

-define(DOCUMENTS, 100).                % documents of a case

%% @doc Opens a case. Now is in milliseconds since 1970.
-spec new(key(), fields(), Now :: integer()) -> 'case'().
new(Key, #{title := Title, parties := Parties}, Now) ->
    #docket_case{key = Key, version = 1, opened = Now, changed = Now, title = Title,
                 parties = Parties}.

%% @doc Changes fields. A closed case only takes a change that opens it.
-spec change('case'(), fields(), Now :: integer()) -> {ok, 'case'()} | {error, closed}.
change(#docket_case{state = closed}, Fields, _) when not is_map_key(state, Fields);
                                                     map_get(state, Fields) =:= closed ->
    {error, closed};
change(#docket_case{title = Title, parties = Parties, state = State} = Case, Fields, Now) ->
    Next = maps:get(state, Fields, State),
    {ok, next(Case#docket_case{title = maps:get(title, Fields, Title),
                               parties = maps:get(parties, Fields, Parties), state = Next,
                               closed = closed(Next, Now)}, Now)}.

%% Only an open case changes, so a closed one has just been closed.
closed(open, _) -> none;
closed(closed, Now) -> Now.

next(#docket_case{version = Version} = Case, Now) ->
    Case#docket_case{version = Version + 1, changed = Now}.

%% @doc Adds a document. Its number is the new version of the case.
-spec attach('case'(), {Name :: binary(), Type :: binary(), Bytes :: non_neg_integer()},
             Now :: integer()) -> {ok, 'case'()} | {error, closed | too_many_documents}.
attach(#docket_case{state = closed}, _, _) -> {error, closed};
attach(#docket_case{documents = Documents}, _, _) when length(Documents) >= ?DOCUMENTS ->
    {error, too_many_documents};
attach(#docket_case{documents = Documents} = Case, {Name, Type, Bytes}, Now) ->
    #docket_case{version = Version} = Next = next(Case, Now),
    {ok, Next#docket_case{documents = [{Version, Name, Type, Bytes} | Documents]}}.

%% @doc Removes a document.
-spec detach('case'(), document_number(), Now :: integer()) ->
          {ok, 'case'()} | {error, closed | not_found}.
detach(#docket_case{state = closed}, _, _) -> {error, closed};
detach(#docket_case{documents = Documents} = Case, Number, Now) ->
    case lists:keytake(Number, 1, Documents) of
        {value, _, Others} -> {ok, next(Case#docket_case{documents = Others}, Now)};
        false -> {error, not_found}
    end.

%% @doc Describes the table of cases for a store: its name and the fields of a row, the key first,
%% in a version of the rows.
-spec table(pos_integer()) -> {atom(), [atom()]}.
table(1) -> {docket_case, lists:droplast(record_info(fields, docket_case))};
table(2) -> {docket_case, record_info(fields, docket_case)}.

%% @doc Returns the newest version of the rows.
-spec newest() -> pos_integer().
newest() -> 2.

%% @doc Makes a row of any version one of the newest. It is unknown when an older one was closed.
-spec upgraded(tuple()) -> 'case'().
upgraded(Row) -> fitted(Row, record_info(size, docket_case)).

%% @doc Makes a row as long as those of a table, which may be of another version.
-spec fitted(tuple(), Size :: pos_integer()) -> tuple().
fitted(Row, Size) when tuple_size(Row) =:= Size -> Row;
fitted(Row, Size) when tuple_size(Row) =:= Size + 1 -> erlang:delete_element(Size + 1, Row);
fitted(Row, Size) when tuple_size(Row) =:= Size - 1 -> erlang:append_element(Row, none).

%% @doc Tells whether a tuple is a row of a version that this program knows.
-spec is_row(tuple()) -> boolean().
is_row(#docket_case{key = Key, version = Version, state = State, opened = Opened,
                    changed = Changed, title = Title, parties = Parties, documents = Documents,
                    closed = Closed}) ->
    is_key(Key) andalso is_integer(Version) andalso lists:member(State, [open, closed])
        andalso docket_time:is_time(Opened) andalso docket_time:is_time(Changed)
        andalso is_text(Title) andalso is_list_of(fun is_party/1, Parties)
        andalso is_list_of(fun is_document/1, Documents)
        andalso (Closed =:= none orelse docket_time:is_time(Closed));
is_row(Row) ->
    tuple_size(Row) =:= record_info(size, docket_case) - 1 andalso is_row(upgraded(Row)).

%% @doc Tells whether a term is a key of a case.
-spec is_key(term()) -> boolean().
is_key({Owner, Id}) -> is_text(Owner) andalso is_integer(Id) andalso Id >= 0;
is_key(_) -> false.

is_party({Name, Role}) -> is_text(Name) andalso is_text(Role);
is_party(_) -> false.

is_document({Number, Name, Type, Bytes}) ->
    is_integer(Number) andalso is_text(Name) andalso is_text(Type) andalso is_integer(Bytes);
is_document(_) -> false.

%% JSON has only UTF-8.
is_text(Text) -> is_binary(Text) andalso unicode:characters_to_binary(Text) =:= Text.

%% @doc Tells whether a term is a list whose elements are all as wanted. A damaged list may have
%% another tail than the empty list.
-spec is_list_of(fun((term()) -> boolean()), term()) -> boolean().
is_list_of(Is, List) when length(List) >= 0 -> lists:all(Is, List);
is_list_of(_, _) -> false.

%% @doc Returns the key of a case.
-spec key('case'()) -> key().
key(#docket_case{key = Key}) -> Key.

%% @doc Returns the version of a case.
-spec version('case'()) -> version().
version(#docket_case{version = Version}) -> Version.

%% @doc Finds a document by its number.
-spec document('case'(), document_number()) -> {ok, document()} | {error, not_found}.
document(#docket_case{documents = Documents}, Number) ->
    case lists:keyfind(Number, 1, Documents) of
        false -> {error, not_found};
        Document -> {ok, Document}
    end.

%% @doc Lists the numbers of all documents.
-spec numbers('case'()) -> [document_number()].
numbers(#docket_case{documents = Documents}) -> [Number || {Number, _, _, _} <- Documents].

%% @doc Tells whether a filter lets a case through.
-spec shows('case'(), filter()) -> boolean().
shows(#docket_case{state = State}, #{state := Wanted}) when State =/= Wanted -> false;
shows(#docket_case{title = Title, parties = Parties}, #{text := Text}) ->
    Wanted = string:casefold(Text),
    lists:any(fun(Where) -> binary:match(string:casefold(Where), Wanted) =/= nomatch end,
              [Title | [Name || {Name, _} <- Parties]]);
shows(_, _) -> true.

%% @doc Gives a case as a map for JSON.
-spec view('case'()) -> map().
view(#docket_case{key = {Owner, Id}} = Case) ->
    #docket_case{version = Version, state = State, opened = Opened, changed = Changed,
                 closed = Closed, title = Title, parties = Parties, documents = Documents} = Case,
    #{id => docket_id:to_text(Id), owner => Owner, version => Version, state => State,
      opened => docket_time:text(Opened), changed => docket_time:text(Changed),
      closed => case Closed of none -> null; _ -> docket_time:text(Closed) end, title => Title,
      parties => [#{name => Name, role => Role} || {Name, Role} <- Parties],
      documents => [#{number => Number, name => Name, type => Type, bytes => Bytes}
                    || {Number, Name, Type, Bytes} <- Documents]}.
