%% @doc Makes an image or a card for a board in `whittle build --board': first the executable in a
%% temporary directory, then the image.
-module(whittle_build_image).

-export([board/2, make/4, trial_notes/2]).

%% @doc Finds the board of a command, and checks the options that go with it.
-spec board(string(), whittle_command_line:values()) ->
          {ok, whittle_board_data:board()} | {error, whittle:failure()}.
board(Name, Values) ->
    Checked = whittle_work:steps(
                [fun(_) -> whittle_board:board(Name) end,
                 fun(Board) ->
                         Given = #{target => maps:get(target, Values, any),
                                   env => maps:get(env, Values, [])},
                         whittle_work:steps(
                           [fun(_) -> whittle_board:check(Board, Given) end,
                            fun(_) -> whittle_board:check_form(Board, form(Values)) end,
                            fun(_) -> {ok, Board} end])
                 end]),
    case {Checked, Values} of
        {{ok, _}, #{format := Format}} when Format =:= dir; Format =:= exe ->
            whittle_failure:usage(["--format ", atom_to_list(Format), " makes no image: leave it "
                                   "out with --board"]);
        {{ok, _}, _} -> Checked;
        {{error, Reason}, _} -> whittle_failure:board(Reason)
    end.

form(#{format := Form}) when Form =:= slot; Form =:= card -> Form;
form(_) -> image.

%% @doc Makes an image or a card. Show makes the result of the executable's build.
-spec make(whittle_make:request(), whittle_board_data:board(), whittle_command_line:values(),
           fun(({ok, whittle_make:made()} | {error, whittle_make:reason()}) ->
                      {ok, whittle:result()} | {error, whittle:failure()})) ->
          {ok, whittle:result()} | {error, whittle:failure()}.
make(Request, Board, Values, Show) ->
    whittle_work:steps(
      [fun(_) -> checked(Values) end,
       fun(_) ->
               case whittle_unfinished:make_directory("whittle-image") of
                   {ok, Dir} ->
                       try in(Dir, Request, Board, Values, Show)
                       after
                           whittle_unfinished:remove_directory(Dir)
                       end;
                   {error, Reason} -> whittle_failure:board({no_place, Reason})
               end
       end]).

suffix(image) -> ".img";
suffix(slot) -> ".slot";
suffix(card) -> ".card".

checked(#{out := Out}) -> failed(whittle_board:check_output(Out));
checked(_) -> ok.

in(Dir, Request, Board, Values, Show) ->
    Program = filename:join(Dir, "program"),
    case whittle_make:make(Request#{out => Program}) of
        {ok, #{ledger := #{name := Name, version := Version} = Ledger, system := System,
               runtime := #{natives := Natives}} = Made} ->
            ok = note_no_signs(System, Values),
            Form = form(Values),
            ok = lists:foreach(fun whittle_progress:note/1,
                               trial_notes(Form, maps:get(env, Values, []))),
            Out = maps:get(out, Values, binary_to_list(Name) ++ suffix(Form)),
            Image = fun(_) ->
                            whittle_progress:step("making the image"),
                            whittle_board:image(
                              #{board => Board, program => Program, natives => Natives,
                                name => Name, version => Version, out => Out, form => Form,
                                env => maps:get(env, Values, []),
                                runtime => #{progress => fun whittle_progress:event/1}})
                    end,
            whittle_work:steps(
              [fun(_) -> checked(#{out => Out}) end,
               fun(_) -> failed(Image(none)) end,
               fun(Done) ->
                       {ok, Result} = Show({ok, Made#{ledger := Ledger#{out := <<"executable">>}}}),
                       {ok, with_image(Result, Done)}
               end]);
        {error, _} = Error -> Show(Error)
    end.

%% A program may also give signs of health without the library.
note_no_signs(System, Values) ->
    case {[Value || "WHITTLE_WATCHDOG=" ++ Value <- maps:get(env, Values, [])],
          whittle_system:app(whittle_board_device, System)} of
        {[_ | _], error} ->
            whittle_progress:note("the program does not contain whittle_board_device: unless it "
                                  "gives signs of health itself, the watchdog resets the board "
                                  "again and again");
        _ -> ok
    end.

%% @doc Lists the ends of a trial after which the board does not start the old image, because of the
%% variables of the new one. An image without slots has no trial.
-spec trial_notes(whittle_board:form(), [string()]) -> [unicode:chardata()].
trial_notes(image, _) -> [];
trial_notes(_, Env) ->
    [["if the image hangs on trial, the board does not start the old one again: give it a watchdog "
      "(--env WHITTLE_WATCHDOG=10; docs/cards.md)"]
     || [] =:= [Value || "WHITTLE_WATCHDOG=" ++ Value <- Env]]
        ++ [["if the image crashes on trial, WHITTLE_CRASH=", Value, " does not start the old one: "
             "leave it out (docs/cards.md)"]
            || "WHITTLE_CRASH=" ++ Value <- Env, Value =/= "reboot"].

failed({error, Reason}) -> whittle_failure:board(Reason);
failed(Ok) -> Ok.

with_image(#{text := Text, json := Json} = Result, #{out := Out, card := Card}) ->
    Result#{text => [Text, $\n, whittle_image_table:card(Card, Out)],
            json => Json#{card => (whittle_image_table:card_json(Card))
                                      #{out => unicode:characters_to_binary(Out)}}};
with_image(#{text := Text, json := Json} = Result,
           #{out := Out, size := Size, label := #{parts := Parts, board := Board}}) ->
    Result#{text => [Text, $\n, whittle_image_table:text(Parts, Out, Size)],
            json => Json#{image => #{out => unicode:characters_to_binary(Out), size => Size,
                                     board => Board, parts => Parts}}}.
