/** Where the nodes of the mesh are drawn: forces refine a drawing of the routes as a tree around this node. */

import { type Simulation, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "d3-force";
import type { EdgeKind, Graph, NodeKind } from "./document";

export interface Place {
  key: string;
  kind: NodeKind;
  x: number;
  y: number;
  vx?: number;
  vy?: number;
}

export interface Line {
  source: Place;
  target: Place;
  kind: EdgeKind;
  confirmed?: boolean;
}

/** The distance of two rings; a node's ring is the number of its hops. */
const RING = 60;
/** Radians by which each hop turns away: nodes exactly in a line could not leave it, since all forces lie in it. */
const BEND = 0.5;

export class Layout {
  places = new Map<string, Place>();
  lines: Line[] = [];
  private readonly simulation: Simulation<Place, undefined>;
  private readonly links = forceLink<Place, Line>([]).distance(RING).iterations(1);

  constructor(moved: () => void) {
    this.simulation = forceSimulation<Place>([])
      .force("link", this.links)
      .force("charge", forceManyBody<Place>().strength(-90).distanceMax(400).theta(1.1))
      .force("x", forceX<Place>(0).strength(0.03))
      .force("y", forceY<Place>(0).strength(0.05))
      .alphaDecay(0.05)
      .on("tick", moved)
      .stop();
  }

  /** Take another graph. Nodes that were there stay where they are; the drawing moves only when nodes or edges do. */
  take(graph: Graph): void {
    const before = this.lines.map(({ source, target }) => `${source.key} ${target.key}`).join("|");
    const count = this.places.size;
    const angles = directions(graph);
    const kept = Object.entries(graph.nodes).map(([key, kind]) => this.placed(graph, key, kind, angles));
    this.places = new Map(kept.map((place) => [place.key, place]));
    this.lines = Object.entries(graph.edges).flatMap(([pair, edge]) => {
      const [source, target] = pair.split(" ").map((key) => this.places.get(key));
      return source && target ? [{ ...edge, source, target }] : [];
    });
    this.simulation.nodes(kept);
    this.links.links(this.lines);
    const after = this.lines.map(({ source, target }) => `${source.key} ${target.key}`).join("|");
    if (before !== after || count !== kept.length) this.settle(count > 0);
  }

  stop(): void {
    this.simulation.stop();
  }

  private placed(graph: Graph, key: string, kind: NodeKind, angles: Map<string, number>): Place {
    const old = this.places.get(key);
    if (old) return Object.assign(old, { kind });
    const hops = kind === "self" ? 0 : (graph.routes[key]?.length ?? 1);
    const radius = RING * hops;
    const angle = (angles.get(key) ?? 0) + BEND * hops;
    return { key, kind, x: radius * Math.cos(angle), y: radius * Math.sin(angle) };
  }

  /** Move the nodes, or for people who want no motion compute where they end. */
  private settle(isKnown: boolean): void {
    this.simulation.alpha(isKnown ? 0.4 : 1);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) this.simulation.tick(60);
    else this.simulation.restart();
  }
}

/**
 * Return the direction in which each node lies, in radians. The routes are a tree; each of its branches has a sector as
 * wide as the branch has nodes.
 */
function directions(graph: Graph): Map<string, number> {
  const children = new Map<string, string[]>();
  for (const key of Object.keys(graph.nodes)) {
    if (graph.nodes[key] === "self") continue;
    const parent = graph.routes[key]?.at(-2) ?? "";
    children.set(parent, [...(children.get(parent) ?? []), key]);
  }
  const sizes = new Map<string, number>();
  const measure = (key: string): number => {
    const size = (children.get(key) ?? []).reduce((sum, child) => sum + measure(child), 1);
    sizes.set(key, size);
    return size;
  };
  const angles = new Map<string, number>();
  const spread = (key: string, from: number, to: number): void => {
    angles.set(key, (from + to) / 2);
    const each = (to - from) / Math.max((sizes.get(key) ?? 1) - 1, 1);
    for (const child of children.get(key) ?? []) {
      const end = from + each * (sizes.get(child) ?? 1);
      spread(child, from, end);
      from = end;
    }
  };
  measure("");
  spread("", 0, 2 * Math.PI);
  return angles;
}
