/** Draws the map: images or a grid, edges, nodes, a scale and north, which is always up. */

import type { Graph } from "./document";
import { STYLES, colours, dashes, has } from "./draw";
import { type Place, length, metresAt, projected, rounded } from "./places";
import type { Tiles } from "./tiles";

/** Pixels of the world's side at scale 1: those of zoom level 12 with images of 256 pixels. */
export const UNIT = 256 * 2 ** 12;
/** Images that are drawn at most; more would be a mistake of the zoom level. */
const IMAGES = 150;
/** Nodes up to which each has its name written beside it, and from which they are small. */
const FEW = 100;

export interface MapView {
  x: number;
  y: number;
  k: number;
  /** The point of the world that is in the middle at x = y = 0. */
  centre: [number, number];
}

interface Content {
  positions: Place[];
  graph: Graph;
  own: string;
  tiles: Tiles | undefined;
}

type Point = [number, number];

/** One drawing: where points of the world are on the canvas, and with which colours. */
interface Frame {
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
  /** Pixels of the world's side. */
  side: number;
  at: (point: Point) => Point;
  from: (pixel: Point) => Point;
  colour: (name: string) => string;
}

export function drawMap(canvas: HTMLCanvasElement, view: MapView, { content }: { content: Content }): void {
  const frame = framed(canvas, view);
  if (!frame) return;
  const places = new Map(content.positions.map((place) => [place.node, place]));
  const step = rounded(metresPerPixel(frame) * 120);
  if (!drawTiles(frame, content.tiles)) drawGrid(frame, step);
  drawEdges(frame, content.graph, places);
  const isFew = content.positions.length <= FEW;
  for (const place of content.positions) drawPlace(frame, place, place.node === content.own, isFew);
  drawScale(frame, step);
  drawNorth(frame);
}

function framed(canvas: HTMLCanvasElement, view: MapView): Frame | undefined {
  const context = canvas.getContext("2d");
  if (!context) return undefined;
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
    canvas.width = width * ratio;
    canvas.height = height * ratio;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "13px system-ui, sans-serif";
  const side = UNIT * view.k;
  const [left, top] = [view.x + width / 2 - view.centre[0] * side, view.y + height / 2 - view.centre[1] * side];
  return {
    context,
    width,
    height,
    side,
    at: ([x, y]) => [left + x * side, top + y * side],
    from: ([x, y]) => [(x - left) / side, (y - top) / side],
    colour: colours(canvas),
  };
}

function metresPerPixel({ from, height, side }: Frame): number {
  return metresAt(from([0, height / 2])[1]) / side;
}

/** Draw the images of the part that is seen. Return whether there are any. */
function drawTiles({ context, at, from, width, height, side }: Frame, tiles: Tiles | undefined): boolean {
  const level = tiles?.level(Math.round(Math.log2(side / 256)));
  if (!tiles || level === undefined) return false;
  const count = 2 ** level;
  const bound = (value: number) => Math.max(0, Math.min(count - 1, Math.floor(value * count)));
  const [first, last] = [from([0, 0]), from([width, height])];
  const [left, right, top, bottom] = [bound(first[0]), bound(last[0]), bound(first[1]), bound(last[1])];
  if ((right - left + 1) * (bottom - top + 1) > IMAGES) return false;
  let isDrawn = false;
  for (let x = left; x <= right; x += 1) {
    for (let y = top; y <= bottom; y += 1) {
      const image = tiles.image(level, x, y);
      if (!image) continue;
      const [px, py] = at([x / count, y / count]);
      context.drawImage(image, px, py, side / count + 0.5, side / count + 0.5);
      isDrawn = true;
    }
  }
  return isDrawn;
}

function drawGrid(frame: Frame, metres: number): void {
  const { context, width, height } = frame;
  const step = metres / metresPerPixel(frame);
  const [x, y] = frame.at([0.5, 0.5]);
  context.beginPath();
  for (let px = ((x % step) + step) % step; px < width; px += step) line(context, [px, 0], [px, height]);
  for (let py = ((y % step) + step) % step; py < height; py += step) line(context, [0, py], [width, py]);
  stroke(frame, "line", 1, []);
}

function drawEdges(frame: Frame, graph: Graph, places: Map<string, Place>): void {
  for (const style of STYLES) {
    frame.context.beginPath();
    for (const [pair, edge] of Object.entries(graph.edges)) {
      const [source, target] = pair.split(" ").map((key) => places.get(key));
      if (has(style, edge) && source && target) line(frame.context, point(frame, source), point(frame, target));
    }
    stroke(frame, style.kind, 2, dashes(style));
  }
}

/** Draw a node, and the circle in which it is; one out of reach is hollow. */
function drawPlace(frame: Frame, place: Place, isOwn: boolean, isFew: boolean): void {
  const { context, colour } = frame;
  const [x, y] = point(frame, place);
  const around = (place.accuracy ?? 0) / metresPerPixel(frame);
  if (around > 10) {
    context.beginPath();
    context.arc(x, y, Math.min(around, 1e4), 0, 2 * Math.PI);
    stroke(frame, "stranger", 1, [2, 4]);
  }
  context.beginPath();
  context.arc(x, y, isOwn ? 8 : isFew ? 6 : 3, 0, 2 * Math.PI);
  context.fillStyle = colour(place.reached ? "node" : "card");
  context.fill();
  stroke(frame, place.reached ? "card" : "stranger", isFew ? 2 : 1, []);
  if (isFew) write(frame, place.node, x, y + 10, "center", "top");
}

function drawScale(frame: Frame, metres: number): void {
  const across = metres / metresPerPixel(frame);
  const y = frame.height - 14;
  frame.context.beginPath();
  line(frame.context, [14, y - 5], [14, y]);
  line(frame.context, [14, y], [14 + across, y]);
  line(frame.context, [14 + across, y], [14 + across, y - 5]);
  stroke(frame, "text", 2, []);
  write(frame, length(metres), 14 + across / 2, y - 4, "center", "bottom");
}

function drawNorth(frame: Frame): void {
  const { context, width } = frame;
  context.beginPath();
  context.moveTo(width - 20, 12);
  context.lineTo(width - 14, 30);
  context.lineTo(width - 26, 30);
  context.closePath();
  context.fillStyle = frame.colour("text");
  context.fill();
  write(frame, "N", width - 20, 33, "center", "top");
}

/** Write a text with an edge, so that it can be read on any image. */
function write(frame: Frame, text: string, x: number, y: number, align: CanvasTextAlign, baseline: CanvasTextBaseline): void {
  const { context, colour } = frame;
  context.textAlign = align;
  context.textBaseline = baseline;
  context.setLineDash([]);
  context.lineWidth = 3;
  context.strokeStyle = colour("card");
  context.strokeText(text, x, y);
  context.fillStyle = colour("text");
  context.fillText(text, x, y);
}

function stroke({ context, colour }: Frame, name: string, width: number, dashes: number[]): void {
  context.strokeStyle = colour(name);
  context.lineWidth = width;
  context.setLineDash(dashes);
  context.stroke();
}

function line(context: CanvasRenderingContext2D, from: Point, to: Point): void {
  context.moveTo(...from);
  context.lineTo(...to);
}

function point({ at }: Frame, place: Place): Point {
  return at(projected(place.latitude, place.longitude));
}
