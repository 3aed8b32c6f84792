/** The document that the server sends (daemon/meshsec/core/page/document.py), and how changes of it are applied. */

export type Level = "ok" | "warn" | "fail";
export type NodeKind = "self" | "peer" | "stranger";
export type EdgeKind = "protected" | "plain" | "stranger";

export interface Daemon {
  up: boolean;
  reason?: string;
}

export interface Peer {
  name: string;
  address?: string;
  ipv4?: string;
  hops?: number;
  state: string;
  reason: string;
  data_plane?: string;
  authentication?: string;
  late: boolean;
  bytes_in: number;
  bytes_out: number;
  route_to_protected_ms?: number;
  /** Seconds of the wall clock. */
  since: number;
  failure?: string;
}

export interface Check {
  name: string;
  level: Level;
  found: string;
  mend: string;
}

/** A node that asks to join a fleet. */
export interface Request {
  fleet: string;
  fleet_key: string;
  name: string;
  address: string;
  fingerprint: string;
  words: string[];
  networks: string[];
  /** The neighbour through which it asks; missing: it is this node itself. */
  via?: string;
  /** Address of another node with the same name. */
  namesake?: string;
  /** Seconds of the wall clock. */
  since?: number;
}

export interface Network {
  network: string;
  by: string;
  peer?: string | null;
  ready: string[];
  announced_by: string[];
  problem: string;
}

export interface Event {
  at: number;
  kind: string;
  peer: string;
  state: string;
  reason: string;
  service?: string;
}

export interface Client {
  mac: string;
  /** What it is called here; missing: nothing. */
  name?: string | null;
  addresses: string[];
  here: boolean;
  node?: string | null;
}

export interface Service {
  node: string;
  address: string;
  name: string;
  protocol: "tcp" | "udp";
  port: number;
  description: string;
  url?: string | null;
}

export interface Graph {
  nodes: Record<string, NodeKind>;
  /** `confirmed`: both ends have signed it; absent where signatures are not looked at. */
  edges: Record<string, { kind: EdgeKind; metric?: number; confirmed?: boolean }>;
  routes: Record<string, string[]>;
}

export interface Figures {
  rates: { at: number[]; in: number[]; out: number[] };
  setups: { at: number[]; ms: number[]; peer: string[] };
}

/** What is missing was not known yet. */
export interface Document {
  meshsecd: Daemon;
  node?: { name: string; address: string; ipv4?: string; fingerprint: string };
  daemons?: Record<string, Daemon>;
  rules_stand?: boolean;
  problems?: string[];
  peers?: Record<string, Peer>;
  /** By the fleet's and the node's key. */
  requests?: Record<string, Request>;
  networks?: Network[];
  own_networks?: string[];
  links?: { peer: string; up: boolean; problems: string[] }[];
  graph?: Graph;
  doctor?: { verdict: Level; checks: Check[] };
  clients?: {
    networks: string[];
    most: number;
    clients: Client[];
    refused: { mac: string; reason: string; count: number }[];
    nodes: string[];
    problems: string[];
  };
  gateway?: {
    gateway: { uplink?: string | null; offers: string[]; problems: string[] };
    unwatched: string;
    ways_out: Network[];
  };
  services?: { services: Service[]; problem: string };
  figures?: Figures;
  events?: Event[];
}

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/**
 * Return the document with a JSON Merge Patch (RFC 7396) applied. What has not changed stays the same object.
 *
 * The result is made by Object.fromEntries, which takes any name, `__proto__` too, for nothing but a name.
 */
export function merged(target: Json | undefined, patch: Json): Json {
  if (!isObject(patch)) return patch;
  const entries = new Map(isObject(target) ? Object.entries(target) : []);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) entries.delete(name);
    else entries.set(name, merged(entries.get(name), value));
  }
  return Object.fromEntries(entries);
}

function isObject(value: Json | undefined): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
