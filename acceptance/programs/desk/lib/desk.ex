defmodule Desk do
  @moduledoc "A program of the usual parts: what its arguments name is done, and printed."
  use Application
  require Logger

  def start(_type, _args) do
    {:ok, pid} =
      Supervisor.start_link(
        [
          {Registry, keys: :unique, name: Desk.Registry},
          {DynamicSupervisor, name: Desk.Drawers, strategy: :one_for_one},
          {Task.Supervisor, name: Desk.Tasks},
          {Desk.Main, Enum.map(:init.get_plain_arguments(), &to_string/1)}
        ],
        strategy: :one_for_one,
        name: Desk.Supervisor
      )

    {:ok, pid}
  end
end

defmodule Desk.Main do
  @moduledoc "Does one after the other, and stops the system."
  use Task

  def start_link(arguments), do: Task.start_link(fn -> run(arguments) end)

  defp run(arguments) do
    printer = Application.fetch_env!(:desk, :printer)
    title = Application.fetch_env!(:desk, :title)
    copies = Application.fetch_env!(:desk, :copies)

    code =
      try do
        for argument <- arguments do
          what = Desk.Work.run(argument)
          for _ <- 1..copies, do: printer.print(title, what)
        end

        0
      rescue
        error ->
          IO.puts("failed: " <> Exception.message(error))
          4
      end

    System.stop(code)
  end
end

defmodule Desk.Plain do
  @moduledoc "The printer that the configuration names."
  def print(title, what), do: IO.puts("#{title}: #{what}")
end

defprotocol Desk.Shown do
  @fallback_to_any true
  def shown(value)
end

defimpl Desk.Shown, for: Any do
  def shown(value), do: inspect(value)
end

defimpl Desk.Shown, for: List do
  def shown(list), do: Enum.map_join(list, "/", &Desk.Shown.shown/1)
end

defmodule Desk.Note do
  @moduledoc "A struct with what Elixir derives."
  @derive {Inspect, only: [:text]}
  defstruct [:text, written: nil]

  defimpl String.Chars do
    def to_string(%{text: text}), do: "<" <> text <> ">"
  end

  defimpl Desk.Shown do
    def shown(note), do: to_string(note) <> inspect(note)
  end
end

defmodule Desk.Drawer do
  @moduledoc "A server with a name in a registry; it can be told to fail."
  use GenServer

  def start_link(name), do: GenServer.start_link(__MODULE__, name, name: via(name))
  def via(name), do: {:via, Registry, {Desk.Registry, name}}

  @impl true
  def init(name), do: {:ok, %{name: name, notes: []}}

  @impl true
  def handle_call({:put, note}, _from, state) do
    state = update_in(state.notes, &[note | &1])
    {:reply, length(state.notes), state}
  end

  def handle_call(:all, _from, %{notes: notes} = state), do: {:reply, Enum.reverse(notes), state}

  @impl true
  def handle_cast(:fail, _state), do: raise("the drawer is stuck")
end

defmodule Desk.Work do
  @moduledoc "What can be asked for."
  require Logger

  def run("drawers") do
    for name <- ["left", "right"] do
      {:ok, _} = DynamicSupervisor.start_child(Desk.Drawers, {Desk.Drawer, name})
    end

    1 = GenServer.call(Desk.Drawer.via("left"), {:put, %Desk.Note{text: "one", written: 1}})
    2 = GenServer.call(Desk.Drawer.via("left"), {:put, :two})
    [{pid, _}] = Registry.lookup(Desk.Registry, "left")
    Desk.Shown.shown([GenServer.call(pid, :all), %{active: count(Desk.Drawers)}])
  end

  def run("stuck") do
    {:ok, pid} = DynamicSupervisor.start_child(Desk.Drawers, {Desk.Drawer, "stuck"})
    monitor = Process.monitor(pid)
    GenServer.cast(pid, :fail)

    receive do
      {:DOWN, ^monitor, :process, _, {%RuntimeError{message: message}, _}} ->
        Logger.warning("it was: " <> message)
        message
    end
  end

  def run("tasks") do
    Desk.Tasks
    |> Task.Supervisor.async_stream(1..5, &(&1 * &1), max_concurrency: 2)
    |> Stream.map(fn {:ok, square} -> square end)
    |> Enum.sum()
    |> Desk.Shown.shown()
  end

  def run("agent") do
    {:ok, agent} = Agent.start_link(fn -> MapSet.new() end)
    for word <- ~w(b a b), do: Agent.update(agent, &MapSet.put(&1, word))
    Desk.Shown.shown(Agent.get(agent, & &1))
  end

  def run("words") do
    text = "Der Zug fährt um 12:45; Straße 7."
    times = Regex.scan(~r/(\d+):(\d+)/, text, capture: :all_but_first)
    lengths = text |> String.split() |> Enum.group_by(&String.length/1) |> Enum.sort()
    Desk.Shown.shown([times, lengths, String.capitalize("straße"), String.normalize("é", :nfd)])
  end

  def run("dates") do
    {:ok, at, 0} = DateTime.from_iso8601("2024-02-28T23:30:00Z")
    next = DateTime.add(at, 3600)
    day = next |> DateTime.to_date() |> Calendar.strftime("%A, %d %B %Y")
    {:error, bad} = Date.from_iso8601("2023-02-29")
    Desk.Shown.shown([next, day, Date.day_of_week(next), bad, ~D[2024-03-01]])
  end

  def run("terms") do
    term = %{list: [1, 2.5, "x"], tuple: {:a, ~c"b"}, nested: %{"k" => <<1, 2, 3>>}}
    back = term |> :erlang.term_to_binary() |> Base.encode64() |> Base.decode64!()
    [file] = [Path.join(System.tmp_dir!(), "desk-#{System.pid()}")]
    File.write!(file, back)
    {:ok, kept} = File.read(file)
    File.rm!(file)
    ^term = :erlang.binary_to_term(kept)
    IO.inspect(term, label: "terms", width: 30, pretty: true)
    {list, nil} = {get_in(term, [:list]), get_in(term, [:no, :way])}
    Desk.Shown.shown([list, Keyword.merge([a: 1], b: 2), File.exists?(file)])
  end

  def run("evaluated") do
    {value, _} = Code.eval_string("Enum.map(1..n, fn x -> x * x end)", n: 3)
    Desk.Shown.shown(value)
  end

  def run(unknown), do: raise(ArgumentError, "there is no #{unknown}")

  defp count(supervisor), do: DynamicSupervisor.count_children(supervisor).active
end
