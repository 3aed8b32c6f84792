/** The map: nodes where they are, for those who may see it. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Graph } from "./document";
import { UNIT, drawMap } from "./map-draw";
import { Section, Table } from "./parts";
import { type Place, type Places, followPlaces, projected } from "./places";
import { Tiles } from "./tiles";
import { Zoomed, extent } from "./zoomed";

/** Metres that are shown at least when all is shown. */
const CLOSEST = 3e-6;

export function WorldMap({ graph, own }: { graph: Graph; own: string }) {
  const [places, setPlaces] = useState<Places>();
  useEffect(() => {
    const left = new AbortController();
    void followPlaces(setPlaces, left.signal);
    return () => left.abort();
  }, []);
  if (!places?.shown || !places.positions.length) return null;
  return <Shown places={places} graph={graph} own={own} />;
}

function Shown({ places, graph, own }: { places: Places; graph: Graph; own: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [drawing, setDrawing] = useState<Drawing>();
  const [problem, setProblem] = useState("");
  const { positions, map } = places;
  useEffect(() => {
    if (!canvas.current) return undefined;
    setProblem("");
    const made = new Drawing(canvas.current, map, setProblem);
    setDrawing(made);
    return () => made.close();
  }, [map]);
  useEffect(() => drawing?.show(positions, graph, own), [drawing, positions, graph, own]);
  const away = positions.filter((place) => !place.reached).length;
  return (
    <Section id="map" title="The map">
      <div class="controls">
        <button type="button" onClick={() => drawing?.scale(1.6)} aria-label="Larger map">
          +
        </button>
        <button type="button" onClick={() => drawing?.scale(1 / 1.6)} aria-label="Smaller map">
          −
        </button>
        <button type="button" onClick={() => drawing?.fit()}>
          Show all on the map
        </button>
      </div>
      {problem && <p class="bad">The map has no images: {problem}</p>}
      <canvas ref={canvas} role="img" aria-label={`${positions.length} nodes on the map, ${away} of them out of reach; the table has their places`} />
      <Table caption="Positions" columns={["Node", "Latitude", "Longitude", "Altitude", "Within", "Seen"]}>
        {positions.map((place) => (
          <tr key={place.node}>
            <th scope="row">{place.node}</th>
            <td>{place.latitude.toFixed(5)}</td>
            <td>{place.longitude.toFixed(5)}</td>
            <td>{metres(place.altitude)}</td>
            <td>{metres(place.accuracy)}</td>
            <td class={place.reached ? "" : "bad"}>{seen(place)}</td>
          </tr>
        ))}
      </Table>
    </Section>
  );
}

function metres(value: number | null): string {
  return value === null ? "–" : `${Math.round(value)} m`;
}

function seen({ age, fixed, reached }: Place): string {
  if (fixed && reached) return "fixed";
  const ago = age < 60 ? `${Math.round(age)} s ago` : age < 3600 ? `${Math.round(age / 60)} min ago` : `${(age / 3600).toFixed(1)} h ago`;
  return reached ? ago : `${ago}, out of reach`;
}

/** The map on its canvas. */
class Drawing extends Zoomed {
  private centre: [number, number] = [0.5, 0.5];
  private positions: Place[] = [];
  private graph: Graph = { nodes: {}, edges: {}, routes: {} };
  private own = "";
  private readonly tiles: Tiles | undefined;

  constructor(canvas: HTMLCanvasElement, hasMap: boolean, failed: (problem: string) => void) {
    super(canvas, [1 / UNIT, 2 ** 10]);
    this.tiles = hasMap ? new Tiles(() => this.redraw(), failed) : undefined;
  }

  show(positions: Place[], graph: Graph, own: string): void {
    [this.positions, this.graph, this.own] = [positions, graph, own];
    this.redraw();
  }

  override close(): void {
    this.tiles?.close();
    super.close();
  }

  protected override paint(): void {
    drawMap(this.canvas, { ...this.view, centre: this.centre }, this);
  }

  protected override fitNow(): void {
    const points = this.positions.map((place) => projected(place.latitude, place.longitude));
    if (!points.length) return;
    const [left, right] = extent(points.map(([x]) => x));
    const [top, bottom] = extent(points.map(([, y]) => y));
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const across = Math.max(right - left, CLOSEST) * UNIT;
    const down = Math.max(bottom - top, CLOSEST) * UNIT;
    const k = Math.min(Math.max((width - 100) / across, 1 / UNIT), Math.max((height - 100) / down, 1 / UNIT), 2 ** 10);
    this.centre = [(left + right) / 2, (top + bottom) / 2];
    this.look(0, 0, k);
  }

  /** What is drawn. */
  get content() {
    return { positions: this.positions, graph: this.graph, own: this.own, tiles: this.tiles };
  }
}
