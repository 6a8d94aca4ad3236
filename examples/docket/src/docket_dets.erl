%% @doc Reads a file of the module dets, and leaves it as it is.
%%
%% dets makes a missing file, and repairs a file that was open when its node ended. Here the repair
%% happens in a copy.
%% @hidden
-module(docket_dets).

-export([read/4]).

%% @doc Opens a file, or a repaired copy of it, and calls a function with the table. The error
%% `copy' names the directory of the copy, in which the copy or its repair cannot be written. The
%% other errors are those of dets:open_file/2 and of the function.
-spec read(file:filename(), Copy :: file:filename(), Options :: [term()],
           fun((dets:tab_name()) -> Result | {error, term()})) ->
          {ok, Result} | {error, {copy, {Dir :: file:filename(), Reason :: term()}} | term()}.
read(File, Copy, Options, Fun) ->
    case read_table(File, [{access, read}, {repair, false} | Options], Fun) of
        {error, {needs_repair, _}} ->
            Result = case file:copy(File, Copy) of
                         {ok, _} -> read_table(Copy, Options, Fun);
                         {error, Reason} -> {error, {file_error, Copy, Reason}}
                     end,
            _ = file:delete(Copy),
            of_copy(Result, filename:dirname(Copy));
        Result -> Result
    end.

of_copy({error, {file_error, _, Reason}}, Dir) -> {error, {copy, {Dir, Reason}}};
of_copy(Result, _) -> Result.

read_table(File, Options, Fun) ->
    case dets:open_file(make_ref(), [{file, File} | Options]) of
        {ok, Table} ->
            Result = Fun(Table),
            _ = dets:close(Table),
            case Result of
                {error, _} -> Result;
                _ -> {ok, Result}
            end;
        {error, _} = Error -> Error
    end.
