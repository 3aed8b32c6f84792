/** Where nodes are, which only some browsers may see (daemon/meshsec/page/places.py), and how places become pixels. */

import { authority } from "./login";

export interface Place {
  node: string;
  latitude: number;
  longitude: number;
  altitude: number | null;
  accuracy: number | null;
  fixed: boolean;
  /** Seconds since the node was there. */
  age: number;
  reached: boolean;
}

export interface Places {
  shown: boolean;
  /** Whether the node has a file with images of the map. */
  map: boolean;
  positions: Place[];
}

const EACH_MS = 2000;
/** For a mesh of many nodes, whose places are many bytes. */
const EACH_OF_MANY_MS = 10_000;
const MANY = 200;
const EARTH_METRES = 40_075_016.7;
/** Web Mercator ends here. */
const LATITUDE_MAX = 85.0511;

/** Call `show` with the places again and again until `left` says so, or the node says that they are not for us. */
export async function followPlaces(show: (places: Places) => void, left: AbortSignal): Promise<void> {
  let each = EACH_MS;
  while (!left.aborted) {
    if (!document.hidden) {
      const found = await asked(left);
      if (found) show(found);
      if (found?.shown === false) return;
      if (found) each = found.positions.length > MANY ? EACH_OF_MANY_MS : EACH_MS;
    }
    await new Promise((resolve) => setTimeout(resolve, each));
  }
}

async function asked(signal: AbortSignal): Promise<Places | undefined> {
  try {
    const answer = await fetch("/api/positions", { headers: authority(), signal });
    return answer.ok ? ((await answer.json()) as Places) : undefined;
  } catch {
    return undefined; // the page says it already when the node does not answer
  }
}

/** Return the point of a place on a square world of side 1 (Web Mercator), from the north-west. */
export function projected(latitude: number, longitude: number): [number, number] {
  const bound = Math.max(-LATITUDE_MAX, Math.min(LATITUDE_MAX, latitude)) * (Math.PI / 180);
  return [longitude / 360 + 0.5, 0.5 - Math.asinh(Math.tan(bound)) / (2 * Math.PI)];
}

/** Return the metres of one unit of that world at a point's height on it. */
export function metresAt(y: number): number {
  return EARTH_METRES / Math.cosh((0.5 - y) * 2 * Math.PI);
}

/** Return the largest of 1, 2, 5, 10, ... that is at most this number of metres. */
export function rounded(metres: number): number {
  const power = 10 ** Math.floor(Math.log10(metres));
  return power * ([5, 2].find((one) => one * power <= metres) ?? 1);
}

export function length(metres: number): string {
  return metres >= 1000 ? `${metres / 1000} km` : metres >= 1 ? `${metres} m` : `${Math.round(metres * 100)} cm`;
}
