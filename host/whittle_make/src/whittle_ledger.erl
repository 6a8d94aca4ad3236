%% @doc Sums up the bytes of a build: a stock release, the code after each pass, the output.
%%
%% All functions are pure.
-module(whittle_ledger).

-export([new/1]).

-export_type([ledger/0, input/0, line/0]).

-type input() ::
        #{system := whittle_system:system(),     % after the passes
          runtime := whittle_runtime:runtime(),
          stock_vm := non_neg_integer(),         % bytes of the stock ERTS, stripped
          contents := #{size := pos_integer(),   % of the output
                        vm := pos_integer(),
                        code := non_neg_integer()}, % as stored, with the rest of
                                                 % the tree
          costs := whittle_shake_cost:costs() | none, % none: not shaken
          notes := [unicode:chardata()],         % about the output; the system has its own
          out := file:filename_all()}.

-type line() :: #{pass := binary(), doc := binary(), bytes := non_neg_integer(),
                  applications := #{atom() => non_neg_integer()}}.

-type ledger() ::
        #{out := binary(), size := pos_integer(), vm := pos_integer(),
          code := non_neg_integer(), target := binary(), flavor := atom(),
          otp := binary(), name := binary(), version := binary(),
          stock := #{size := non_neg_integer(), vm := non_neg_integer(),
                     code := non_neg_integer()},
          costs => whittle_shake_cost:costs(),
          passes := [line()], notes := [binary()]}.

%% @doc Computes the ledger.
%%
%% The stock release is the one that relx builds: the original applications, unstripped, and the
%% stock ERTS.
-spec new(input()) -> ledger().
new(#{system := System, runtime := Runtime, stock_vm := StockVm, notes := Notes,
          contents := #{size := Size, vm := Vm, code := Code}, out := Out} = Input) ->
    Ledger = whittle_system:ledger(System),
    StockCode = stock_code(Ledger, System),
    #{target := Target, flavor := Flavor, otp_vsn := Otp} = Runtime,
    (maps:filter(fun(_, Costs) -> Costs =/= none end, maps:with([costs], Input)))
    #{out => text_of(Out), size => Size, vm => Vm, code => Code,
      name => text_of(whittle_system:name(System)),
      version => text_of(whittle_system:vsn(System)),
      target => text_of(Target), flavor => Flavor, otp => text_of(Otp),
      stock => #{size => StockVm + StockCode, vm => StockVm, code => StockCode},
      passes => [line(Entry) || Entry <- Ledger],
      notes => lists:append([OfPass || #{notes := OfPass} <- Ledger])
          ++ [text_of(whittle_file_name:printable(Note)) || Note <- Notes]}.

%% A stock release also contains only the applications that it needs. So this function counts
%% them after the pass that removes the others. It does not count Whittle's own.
stock_code(Ledger, System) ->
    Own = [Name || #{name := Name, origin := #{kind := device}} <- whittle_system:apps(System)],
    Sums = maps:from_list([{Pass, total(maps:without(Own, After))}
                           || #{pass := Pass, 'after' := After} <- Ledger]),
    maps:get(applications, Sums, maps:get(read, Sums, 0)).

line(#{pass := Pass, doc := Doc, 'after' := After}) ->
    #{pass => atom_to_binary(Pass), doc => text_of(Doc), bytes => total(After),
      applications => After}.

total(Sizes) -> lists:sum(maps:values(Sizes)).

text_of(Chars) -> unicode:characters_to_binary(Chars).
