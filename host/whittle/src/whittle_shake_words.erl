%% @doc What the words of `whittle build' say about shaking.
-module(whittle_shake_words).

-export([options/1]).

%% Larger files of names or of calls are not read.
-define(MAX_FILE, 64 * 1024 * 1024).

-define(DOORS, [remote, data, atoms, code]).

%% @doc The options of {@link whittle_shake:plan/2} but for the VM's modules, or `none'.
%% What only means something to shaking is refused without it.
-spec options(whittle_command_line:values()) ->
          {ok, none | map()} | {error, {words | work, unicode:chardata()}}.
options(#{shake := "none"} = Values) ->
    case [Name || Name <- [missing, feature, keep, evidence, seen | ?DOORS],
                  is_map_key(Name, Values)] of
        [] -> {ok, none};
        [Name | _] -> {error, {words, ["--", atom_to_list(Name), " needs --shake"]}}
    end;
options(#{shake := Unit} = Values) ->
    whittle_work:steps(
      [fun(_) -> {ok, #{unit => unit(Unit), missing => missing(Values),
                        declared => #{}}} end,
       fun(Options) -> features(Values, Options) end,
       fun(Options) -> keep(Values, Options) end,
       fun(Options) -> evidence(Values, Options) end
       | [fun(Options) -> declared(Door, Values, Options) end || Door <- ?DOORS]]).

%% Internal

unit("modules") -> modules;
unit("functions") -> functions.

missing(#{missing := "crash"}) -> crash;
missing(_) -> load.

features(#{feature := Text}, Options) ->
    Known = [atom_to_list(Name) || {Name, _} <- whittle_shake:features()],
    Words = string:lexemes(Text, ","),
    case {[wrong_feature(Word, Known) || Word <- Words,
                                         not lists:member(tl(Word), Known)
                                             orelse not lists:member(hd(Word), "+-")],
          [Name || [$+ | Name] <- Words, lists:member([$- | Name], Words)]} of
        {[Wrong | _], _} ->
            {error, {words, [Wrong, "; `whittle features' lists them"]}};
        {[], [Both | _]} ->
            {error, {words, ["--feature has +", Both, " and -", Both, ": take one of them out"]}};
        {[], []} ->
            {ok, Options#{on => [list_to_existing_atom(Name) || [$+ | Name] <- Words],
                          off => [list_to_existing_atom(Name) || [$- | Name] <- Words]}}
    end;
features(_, Options) ->
    {ok, Options}.

wrong_feature([Sign | Name], Known) when Sign =:= $+; Sign =:= $- ->
    ["--feature: there is no feature `", Name, $', whittle_suggestion:hint(Name, Known)];
wrong_feature(Word, _) ->
    ["--feature takes +X and -X with commas between, not `", Word, $'].

keep(#{keep := File}, Options) ->
    with_file(keep, File,
              fun(Bytes) ->
                      case whittle_shake_name:parse_file(Bytes) of
                          {ok, Names} -> {ok, Options#{keep => Names}};
                          {error, Line} ->
                              {error, {work, [File, ": `", Line, "' is no M, M:F or M:F/A: "
                                              "correct it"]}}
                      end
              end);
keep(_, Options) ->
    {ok, Options}.

evidence(#{seen := "only", evidence := _}, #{missing := crash}) ->
    {error, {words, "--seen only needs --missing load: what a run did not call has to be there"}};
evidence(#{evidence := File} = Values, Options) ->
    with_file(evidence, File,
              fun(Bytes) ->
                      case whittle_shake_evidence:from_binary(Bytes) of
                          {ok, Evidence} ->
                              {ok, Options#{evidence => Evidence, seen => seen(Values, Options)}};
                          {error, Error} ->
                              {error, {work, [File, $\s,
                                              whittle_shake_evidence:format_error(Error)]}}
                      end
              end);
evidence(#{seen := _}, _) ->
    {error, {words, "--seen needs --evidence FILE"}};
evidence(_, Options) ->
    {ok, Options}.

with_file(Option, File, Fun) ->
    case whittle_file:whole(File, ?MAX_FILE) of
        {ok, Bytes} -> Fun(Bytes);
        {error, eftype} ->
            {error, {work, [File, " is a pipe, a socket or a device: name a file with --",
                            atom_to_list(Option)]}};
        {error, efbig} ->
            {error, {work, [File, " is larger than any file of its kind: check the path given to "
                            "--", atom_to_list(Option)]}};
        {error, Reason} ->
            {error, {work, [File, " cannot be read (", file:format_error(Reason),
                            "): check the path given to --", atom_to_list(Option)]}}
    end.

%% By default what is only loaded later is not refused.
seen(#{seen := "refuse"}, _) -> refuse;
seen(#{seen := "keep"}, _) -> keep;
seen(#{seen := "only"}, _) -> only;
seen(_, #{missing := load}) -> keep;
seen(_, #{missing := crash}) -> refuse.

declared(Door, Values, #{declared := Declared} = Options) ->
    case Values of
        #{Door := Text} ->
            case whittle_shake_name:parse_list(Text) of
                {ok, Names} -> {ok, Options#{declared := Declared#{Door => Names}}};
                {error, "none"} ->
                    {error, {words, ["--", atom_to_list(Door), ": `none' stands alone"]}};
                {error, Word} ->
                    {error, {words, ["--", atom_to_list(Door), ": `", Word,
                                     "' is no M, M:F or M:F/A"]}}
            end;
        _ -> {ok, Options}
    end.
