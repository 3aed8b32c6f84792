/** What happened: figures of the last hour, and events. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { Event, Figures } from "./document";
import { Section, State } from "./parts";
import { clock, rate } from "./words";

const HEIGHT = 180;

export function OverTime({ figures }: { figures: Figures }) {
  const { rates, setups } = figures;
  const [received, sent] = [rates.in.at(-1) ?? 0, rates.out.at(-1) ?? 0];
  const last = setups.ms.at(-1);
  return (
    <Section id="figures" title="The last hour">
      <h3>Throughput</h3>
      <p>
        Now {rate(received)} in, {rate(sent)} out.
      </p>
      <Chart
        label="Throughput over the last hour"
        columns={[rates.at, rates.in, rates.out]}
        series={[
          { label: "in", colour: "protected" },
          { label: "out", colour: "route" },
        ]}
        value={rate}
      />
      <h3>Time from a route to the protected channel</h3>
      <p>{last === undefined ? "No channel was set up yet." : `Last: ${Math.round(last)} ms, with ${setups.peer.at(-1)}.`}</p>
      {last !== undefined && (
        <Chart
          label="Set-up times over the last hour"
          columns={[setups.at, setups.ms]}
          series={[{ label: "set-up", colour: "protected", isPoints: true }]}
          value={(value) => `${Math.round(value)} ms`}
        />
      )}
    </Section>
  );
}

interface ChartProps {
  label: string;
  columns: number[][];
  series: { label: string; colour: string; isPoints?: boolean }[];
  value: (value: number) => string;
}

function Chart(props: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const make = () => {
      chart.current?.destroy();
      chart.current = new uPlot(options(element, props), ordered(props.columns), element);
    };
    const resized = new ResizeObserver(() => chart.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    make();
    resized.observe(element);
    scheme.addEventListener("change", make);
    return () => {
      resized.disconnect();
      scheme.removeEventListener("change", make);
      chart.current?.destroy();
    };
  }, []);
  useEffect(() => chart.current?.setData(ordered(props.columns)), [props.columns]);
  return <div class="chart" ref={box} role="img" aria-label={props.label} />;
}

/** Return the columns by time, as uPlot wants them: a set-up is known later than it was done. */
function ordered(columns: number[][]): uPlot.AlignedData {
  const times = columns[0] ?? [];
  const order = times.map((_, index) => index).sort((one, other) => (times[one] ?? 0) - (times[other] ?? 0));
  return columns.map((column) => order.map((index) => column[index] ?? 0)) as uPlot.AlignedData;
}

function options(element: Element, props: ChartProps): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(`--${name}`);
  const axis = { stroke: colour("text"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_chart, _low, high) => [0, Math.max(high ?? 0, 1)] } },
    axes: [axis, { ...axis, size: 80, values: (_chart, values) => values.map(props.value) }],
    series: [
      {},
      ...props.series.map((one) => ({
        label: one.label,
        stroke: colour(one.colour),
        width: 2,
        ...(one.isPoints && { paths: () => null, points: { show: true, size: 6, fill: colour(one.colour) } }),
      })),
    ],
  };
}

export function Events({ events }: { events: Event[] }) {
  return (
    <Section id="events" title="Events">
      {events.length ? (
        <ol class="events" tabIndex={0} aria-label="Events, the last one first">
          {[...events].reverse().map((event) => (
            <li>
              <time>{clock(event.at)}</time> <strong>{event.peer || event.service}</strong>{" "}
              <State state={event.state || event.kind} /> {event.reason}
            </li>
          ))}
        </ol>
      ) : (
        <p>Nothing has happened since the page was started.</p>
      )}
    </Section>
  );
}
