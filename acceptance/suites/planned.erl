%% Builds a program with a test's own plan. The test chooses the hot functions and all others are
%% cold, so the program must work with any plan.
-module(planned).

-export([build/3, called_at_boot/0, a_half/1]).

-type choice() :: fun((mfa()) -> boolean()).

%% Builds for the tests' OTP, flavor `size'.
-spec build(file:filename(), file:filename(), choice()) -> file:filename().
build(Path, Out, IsHot) ->
    {ok, #{system := Whole, otp := #{lib := Lib}}} = whittle_make:system(#{input => Path}),
    {ok, Otp} = whittle_otp_lib:open(Lib),
    {ok, Preloaded} = whittle_otp_lib:preloaded(Otp),
    {ok, Facts} = whittle_shake:facts(Whole, Preloaded),
    Hot = [{M, F, A} || {M, #{functions := Functions}} <- maps:to_list(Facts),
                        {F, A} <- maps:keys(Functions), IsHot({M, F, A})],
    {ok, _} = whittle_make:make(#{input => Path, out => Out,
                                  shake => #{unit => functions, only => Hot}}),
    Out.

%% Returns the functions that a stock node calls during its start, by the counters of the JIT.
-spec called_at_boot() -> choice().
called_at_boot() ->
    Count = "[io:format(\"~0tp.~n\", [{M, [FA || {FA, true} <- code:get_coverage(function, M)]}])"
            " || M <- erlang:loaded(), code:coverage_support(), M =/= erl_eval,"
            " is_list(code:which(M))], halt().",
    {0, Said} = running:run(filename:join([running:otp_root(), "bin", "erl"]),
                            ["+JPcover", "function", "-noshell", "-eval", Count]),
    {ok, Terms} = terms(binary_to_list(Said)),
    Called = maps:from_list([{{M, F, A}, []} || {M, FAs} <- Terms, {F, A} <- FAs]),
    true = map_size(Called) > 500,    % otherwise this emulator does not count
    fun(Mfa) -> is_map_key(Mfa, Called) end.

terms(Text) ->
    {ok, [begin
              {ok, Tokens, _} = erl_scan:string(Line),
              {ok, Term} = erl_parse:parse_term(Tokens),
              Term
          end || Line <- string:lexemes(Text, "\n")]}.

%% Chooses half of all functions; the number selects which.
-spec a_half(integer()) -> choice().
a_half(Seed) -> fun(Mfa) -> erlang:phash2({Seed, Mfa}, 2) =:= 0 end.
