%% @doc Reads a file of the module dets, and leaves it as it is.
%%
%% dets makes a missing file, and repairs a file that was open when its node ended. Here the repair
%% happens in a copy.
%% @hidden
-module(docket_dets).

-export([read/4]).

%% @doc Opens a file, or a repaired copy of it, and calls a function with the table. The error
%% `copy' names the copy; the other errors are those of dets:open_file/2.
-spec read(file:filename(), Copy :: file:filename(), Options :: [term()],
           fun((dets:tab_name()) -> Result)) ->
          {ok, Result} | {error, {copy, {file:filename(), Reason :: term()}} | term()}.
read(File, Copy, Options, Fun) ->
    case opened(File, [{access, read}, {repair, false} | Options], Fun) of
        {error, {needs_repair, _}} ->
            Result = case file:copy(File, Copy) of
                         {ok, _} -> opened(Copy, Options, Fun);
                         {error, Reason} -> {error, {copy, {Copy, Reason}}}
                     end,
            _ = file:delete(Copy),
            Result;
        Result -> Result
    end.

opened(File, Options, Fun) ->
    case dets:open_file(make_ref(), [{file, File} | Options]) of
        {ok, Table} ->
            Result = Fun(Table),
            _ = dets:close(Table),
            {ok, Result};
        {error, _} = Error -> Error
    end.
