%% @hidden Splits a shell script into the lines that always run, and all other lines.
%%
%% It reads the structure of POSIX's sh only: quotes, comments, here-documents, and the words that
%% begin and end compound commands. From a place that it does not understand on, all lines count as
%% others.
-module(whittle_shell_lines).

-export([split/1]).

%% The state of a scan. `at_command' holds where a reserved word may stand, and `joined' holds where
%% a command goes on behind a line end. `body' holds behind the head of a function. `ends' are the
%% words that end the open compound commands, the innermost first; `case' and a function have states
%% of their own. `documents' are the here-documents that begin at the next line end.
-record(scan, {at_command = true :: boolean(),
               joined = false :: boolean(),
               body = false :: boolean(),
               ends = [] :: [binary() | function | {esac, subject | in | pattern | body}],
               documents = [] :: [#{ends := binary(), tabs := boolean(), quoted := boolean()}]}).

-define(IS_BLANK(C), (C =:= $\s orelse C =:= $\t orelse C =:= $\r)).
-define(IS_OPERATOR(C), (C =:= $; orelse C =:= $& orelse C =:= $| orelse C =:= $( orelse C =:= $)
                         orelse C =:= $< orelse C =:= $>)).

%% @doc Splits a script, without empty lines and comments. `always' marks a line with a whole
%% command that is in no compound command, function or here-document. Blanks at both ends are
%% removed.
-spec split(binary()) -> [{always | other, binary()}].
split(<<>>) -> [];
split(Text) ->
    case command(Text, #scan{}) of
        {ok, Rest} ->
            Command = binary:part(Text, 0, byte_size(Text) - byte_size(Rest)),
            case lines(Command) of
                [Line] -> [{always, Line} | split(Rest)];
                Lines -> others(Lines) ++ split(Rest)
            end;
        unknown -> others(lines(Text))
    end.

%% Internal

others(Lines) -> [{other, Line} || Line <- Lines].

lines(Text) ->
    [Line || Raw <- binary:split(Text, <<"\n">>, [global]), Line <- [whittle_trim:blanks(Raw)],
             Line =/= <<>>, binary:first(Line) =/= $#].

%% Returns the text behind the lines of one command.
command(<<>>, #scan{ends = [], joined = false, documents = []}) -> {ok, <<>>};
command(<<>>, _) -> unknown;
command(<<"\\\n", Rest/binary>>, Scan) -> command(Rest, Scan);
command(<<C, Rest/binary>>, Scan) when ?IS_BLANK(C) -> command(Rest, Scan);
command(<<$#, Rest/binary>>, Scan) -> command(behind_comment(Rest), Scan);
command(<<$\n, Text/binary>>, #scan{documents = Documents} = Scan) ->
    case {behind_documents(lists:reverse(Documents), Text), Scan} of
        {unknown, _} -> unknown;
        {Rest, #scan{ends = [], joined = false}} -> {ok, Rest};
        {Rest, _} -> command(Rest, Scan#scan{at_command = true, documents = []})
    end;
command(<<C, _/binary>> = Text, Scan) when ?IS_OPERATOR(C) -> operator(Text, Scan);
command(Text, Scan) ->
    case word(Text) of
        unknown -> unknown;
        {Word, Rest} -> next(Rest, in_word(Word, Scan#scan{joined = false}))
    end.

next(_, unknown) -> unknown;
next(Rest, Scan) -> command(Rest, Scan).

behind_comment(Text) ->
    [Comment | _] = binary:split(Text, <<"\n">>),
    binary:part(Text, byte_size(Comment), byte_size(Text) - byte_size(Comment)).

%% Internal: operators

operator(<<"<<<", Rest/binary>>, Scan) -> command(Rest, Scan#scan{at_command = false});
operator(<<"<<-", Rest/binary>>, Scan) -> document(Rest, true, Scan);
operator(<<"<<", Rest/binary>>, Scan) -> document(Rest, false, Scan);
operator(<<C, Rest/binary>>, Scan) when C =:= $<; C =:= $> ->
    command(Rest, Scan#scan{at_command = false});
operator(<<C, Rest/binary>>, #scan{ends = [{esac, pattern} | _]} = Scan) when C =:= $(; C =:= $| ->
    command(Rest, Scan);
operator(<<$), Rest/binary>>, #scan{ends = [{esac, pattern} | Ends]} = Scan) ->
    command(Rest, Scan#scan{ends = [{esac, body} | Ends], at_command = true});
operator(_, #scan{ends = [{esac, State} | _]}) when State =/= body -> unknown;
operator(<<$;, C, Rest/binary>>, #scan{ends = [{esac, body} | Ends]} = Scan)
  when C =:= $;; C =:= $& ->
    command(Rest, Scan#scan{ends = [{esac, pattern} | Ends]});
operator(<<";;", _/binary>>, _) -> unknown;
operator(<<C, C, Rest/binary>>, Scan) when C =:= $&; C =:= $| -> joined(Rest, Scan);
operator(<<"|&", Rest/binary>>, Scan) -> joined(Rest, Scan);
operator(<<$|, Rest/binary>>, Scan) -> joined(Rest, Scan);
operator(<<C, Rest/binary>>, Scan) when C =:= $;; C =:= $& ->
    command(Rest, Scan#scan{at_command = true, joined = false});
operator(<<$(, Rest/binary>>, #scan{at_command = true, ends = Ends} = Scan) ->
    command(Rest, Scan#scan{ends = [<<")">> | Ends], joined = false, body = false});
operator(<<$(, Rest/binary>>, #scan{at_command = false} = Scan) ->
    %% A function's name stands before. Its body is a compound command, maybe on the next line.
    case whittle_trim:blanks(hd(binary:split(Rest, <<")">>))) of
        <<>> ->
            case binary:split(Rest, <<")">>) of
                [_, Body] -> joined(Body, Scan#scan{body = true});
                [_] -> unknown
            end;
        _ -> unknown
    end;
operator(<<$), Rest/binary>>, #scan{ends = [<<")">> | Ends]} = Scan) ->
    command(Rest, Scan#scan{ends = Ends, at_command = true, joined = false});
operator(<<$), _/binary>>, _) ->
    unknown.

joined(Rest, Scan) -> command(Rest, Scan#scan{at_command = true, joined = true}).

%% Internal: here-documents

document(<<C, Rest/binary>>, Tabs, Scan) when ?IS_BLANK(C) -> document(Rest, Tabs, Scan);
document(<<C, _/binary>>, _, _) when C =:= $\n; ?IS_OPERATOR(C) -> unknown;
document(Text, Tabs, #scan{documents = Documents} = Scan) ->
    case word(Text) of
        unknown -> unknown;
        {Word, Rest} ->
            Quotes = [Quote || Quote <- [<<"'">>, <<"\"">>, <<"\\">>],
                               binary:match(Word, Quote) =/= nomatch],
            case {Quotes, binary:match(Word, <<"\\\\">>)} of
                {[_, _ | _], _} -> unknown;
                {_, {_, _}} -> unknown;
                _ ->
                    End = lists:foldl(fun(Quote, Left) ->
                                              binary:replace(Left, Quote, <<>>, [global])
                                      end, Word, Quotes),
                    Document = #{ends => End, tabs => Tabs, quoted => Quotes =/= []},
                    command(Rest, Scan#scan{documents = [Document | Documents],
                                            at_command = false, joined = false})
            end
    end.

behind_documents([], Text) -> Text;
behind_documents([#{ends := End, tabs := Tabs, quoted := Quoted} | More] = Documents, Text) ->
    [Line | Others] = binary:split(Text, <<"\n">>),
    case {without_tabs(Tabs, Line), Others} of
        {End, [Rest]} -> behind_documents(More, Rest);
        {End, []} when More =:= [] -> <<>>;
        {_, [Rest]} ->
            case Quoted orelse is_closed(Line) of
                true -> behind_documents(Documents, Rest);
                false -> unknown
            end;
        _ -> unknown
    end.

%% Without quotes around its end, a here-document has parts that the shell replaces. Returns whether
%% they all end on their line.
is_closed(<<>>) -> true;
is_closed(<<"\\">>) -> false;
is_closed(<<C, _/binary>> = Text) when C =:= $\\; C =:= $$; C =:= $` ->
    case behind_piece(Text) of
        unknown -> false;
        Rest -> is_closed(Rest)
    end;
is_closed(<<_, Rest/binary>>) -> is_closed(Rest).

without_tabs(true, <<$\t, Line/binary>>) -> without_tabs(true, Line);
without_tabs(_, Line) -> Line.

%% Internal: words

in_word(_, #scan{ends = [{esac, subject} | Ends]} = Scan) ->
    Scan#scan{ends = [{esac, in} | Ends]};
in_word(<<"in">>, #scan{ends = [{esac, in} | Ends]} = Scan) ->
    Scan#scan{ends = [{esac, pattern} | Ends]};
in_word(_, #scan{ends = [{esac, in} | _]}) -> unknown;
in_word(<<"esac">>, #scan{ends = [{esac, pattern} | Ends]} = Scan) ->
    Scan#scan{ends = Ends, at_command = true};
in_word(_, #scan{ends = [{esac, pattern} | _]} = Scan) -> Scan;
in_word(<<"{">>, #scan{at_command = true, body = true, ends = Ends} = Scan) ->
    Scan#scan{body = false, ends = [function | Ends]};
in_word(Word, #scan{body = true} = Scan) -> in_word(Word, Scan#scan{body = false});
in_word(<<"}">>, #scan{at_command = true, ends = [function | Ends]} = Scan) ->
    Scan#scan{ends = Ends};
in_word(Word, #scan{at_command = true, ends = Ends} = Scan) ->
    case meaning(Word) of
        {begins, End, AtCommand} -> Scan#scan{ends = [End | Ends], at_command = AtCommand};
        {within, End} when Ends =/= [], hd(Ends) =:= End -> Scan;
        ends when Ends =/= [], hd(Ends) =:= Word -> Scan#scan{ends = tl(Ends)};
        ends when Word =:= <<"esac">>, Ends =/= [], hd(Ends) =:= {esac, body} ->
            Scan#scan{ends = tl(Ends)};
        before -> Scan;
        %% Outside of functions the rest of the script may not run.
        returns -> case lists:member(function, Ends) of
                       true -> Scan#scan{at_command = false};
                       false -> unknown
                   end;
        none -> Scan#scan{at_command = false};
        _ -> unknown
    end;
in_word(_, Scan) ->
    Scan.

meaning(<<"if">>) -> {begins, <<"fi">>, true};
meaning(<<"while">>) -> {begins, <<"done">>, true};
meaning(<<"until">>) -> {begins, <<"done">>, true};
meaning(<<"for">>) -> {begins, <<"done">>, false};
meaning(<<"case">>) -> {begins, {esac, subject}, false};
meaning(<<"{">>) -> {begins, <<"}">>, true};
meaning(<<"then">>) -> {within, <<"fi">>};
meaning(<<"else">>) -> {within, <<"fi">>};
meaning(<<"elif">>) -> {within, <<"fi">>};
meaning(<<"do">>) -> {within, <<"done">>};
meaning(<<"fi">>) -> ends;
meaning(<<"done">>) -> ends;
meaning(<<"esac">>) -> ends;
meaning(<<"}">>) -> ends;
meaning(<<"!">>) -> before;
meaning(<<"time">>) -> before;
meaning(<<"return">>) -> returns;
meaning(Word) when Word =:= <<"function">>; Word =:= <<"select">>; Word =:= <<"coproc">> -> bash;
meaning(_) -> none.

%% Returns a word with its quotes, and the text behind it.
word(Text) ->
    case behind_word(Text) of
        unknown -> unknown;
        Rest -> {binary:part(Text, 0, byte_size(Text) - byte_size(Rest)), Rest}
    end.

behind_word(<<>>) -> <<>>;
behind_word(<<C, _/binary>> = Text) when ?IS_BLANK(C); C =:= $\n; ?IS_OPERATOR(C) -> Text;
behind_word(<<"$'", _/binary>>) -> unknown;
behind_word(Text) ->
    case behind_piece(Text) of
        unknown -> unknown;
        Rest -> behind_word(Rest)
    end.

%% Returns the text behind one letter or one quoted or replaced part.
behind_piece(<<$\\, _, Rest/binary>>) -> Rest;
behind_piece(<<$', Rest/binary>>) ->
    case binary:split(Rest, <<"'">>) of
        [_, Behind] -> Behind;
        [_] -> unknown
    end;
behind_piece(<<$", Rest/binary>>) -> behind_end(Rest, $");
behind_piece(<<"$(case", _/binary>>) -> unknown;
behind_piece(<<"$(", Rest/binary>>) -> behind_end(Rest, $));
behind_piece(<<"${", Rest/binary>>) -> behind_end(Rest, $});
behind_piece(<<$`, Rest/binary>>) -> behind_end(Rest, $`);
behind_piece(<<_, Rest/binary>>) -> Rest.

%% Returns the text behind the end of a part. It does not read here-documents, comments and `case'
%% there.
behind_end(<<End, Rest/binary>>, End) -> Rest;
behind_end(<<>>, _) -> unknown;
behind_end(<<"<<", _/binary>>, End) when End =/= $" -> unknown;
behind_end(<<C, $#, _/binary>>, End) when (?IS_BLANK(C) orelse C =:= $\n), End =/= $" -> unknown;
behind_end(<<C, "case", _/binary>>, $))
  when ?IS_BLANK(C); C =:= $\n; ?IS_OPERATOR(C); C =:= ${ -> unknown;
behind_end(<<$', Rest/binary>>, $") -> behind_end(Rest, $");
behind_end(<<$', _/binary>>, $}) -> unknown; % between double quotes it quotes nothing
behind_end(<<$(, Rest/binary>>, $)) -> behind_inner(behind_end(Rest, $)), $));
behind_end(Text, End) -> behind_inner(behind_piece(Text), End).

behind_inner(unknown, _) -> unknown;
behind_inner(Rest, End) -> behind_end(Rest, End).
