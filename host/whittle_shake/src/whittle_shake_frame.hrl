%% What is known at one place of a function that is read ({@link whittle_shake_facts}), and
%% what its reading has found: of the modules that read it.

%% The registers at one place; what is known of tuples; and the labels that an
%% exception leads to, by the y register that says so, the innermost first.
-record(at, {regs = #{} :: #{whittle_beam_module:operand() => whittle_shake_value:t()},
             known = #{} :: #{whittle_shake_value:id() => whittle_shake_value:class()},
             handlers = [] :: [{non_neg_integer(), pos_integer()}]}).

-record(run, {module = none :: module(),
              labels = #{} :: #{pos_integer() => #at{}},
              natives = #{} :: #{mfa() => []},
              sites = [] :: [whittle_shake_facts:site()],
              tuples = [] :: [whittle_shake_facts:made()],
              writes = #{} :: #{result | whittle_shake_value:place() =>
                                    [whittle_shake_value:token()]},
              on_load = false :: boolean(),
              number = 0 :: non_neg_integer(),
              count = 0 :: non_neg_integer()}).
