import type { LiveStatus, LiveWindow, ServerMessage } from "./types";

export const HISTORY = 300;
export const STALE_AFTER_MS = 3500;
const BACKOFF_MS = [400, 800, 1600, 3200, 6400];
const CODE_SIGNED_OUT = 4401;
const CODE_DENIED = 4403;

export interface LiveState {
  status: LiveStatus;
  scope: string | null;
  windows: LiveWindow[];
}

type Listener = () => void;
type OnChanged = (what: string, id: string) => void;

/**
 * The one websocket of a tab. It keeps the last 300 windows of the subscribed scope and says how fresh they are:
 * `stale` when none came for 3.5 s on an open socket, `reconnecting` when the socket itself is gone.
 */
export class LiveSocket {
  private socket: WebSocket | null = null;
  private listeners = new Set<Listener>();
  private attempt = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private watchdog: ReturnType<typeof setTimeout> | undefined;
  private state: LiveState = { status: "connecting", scope: null, windows: [] };

  constructor(
    private readonly url: string,
    private readonly onChanged: OnChanged,
  ) {}

  subscribe = (listener: Listener): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  snapshot = (): LiveState => this.state;

  /** Follow another scope: a tenant's id or "platform". Windows of the old one are dropped at once. */
  follow(scope: string): void {
    if (scope === this.state.scope) return;
    this.set({ scope, windows: [], status: "connecting" });
    if (this.socket?.readyState === WebSocket.OPEN) this.send(scope);
    else if (!this.socket) this.connect();
  }

  close(): void {
    clearTimeout(this.retry);
    clearTimeout(this.watchdog);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.state = { status: "connecting", scope: null, windows: [] };
  }

  private connect(): void {
    clearTimeout(this.retry);
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.onopen = () => {
      if (this.state.scope) this.send(this.state.scope);
    };
    socket.onmessage = (event) => {
      if (this.socket === socket) this.receive(JSON.parse(String(event.data)) as ServerMessage);
    };
    socket.onclose = (event) => {
      if (this.socket === socket) this.closed(event.code);
    };
  }

  private closed(code: number): void {
    this.socket = null;
    clearTimeout(this.watchdog);
    if (code === CODE_SIGNED_OUT) this.set({ status: "signed_out" });
    else if (code === CODE_DENIED) this.set({ status: "denied", windows: [] });
    else this.reconnect();
  }

  private reconnect(): void {
    const base = BACKOFF_MS[Math.min(this.attempt, BACKOFF_MS.length - 1)] ?? 6400;
    this.attempt += 1;
    this.set({ status: "reconnecting" });
    // Jitter: a restarted server must not meet every tab in the same instant.
    this.retry = setTimeout(() => this.connect(), base * (0.5 + Math.random()));
  }

  private send(scope: string): void {
    this.socket?.send(JSON.stringify({ subscribe: scope }));
    this.watch();
  }

  private receive(message: ServerMessage): void {
    if (message.type === "changed") this.onChanged(message.what, message.id);
    else this.attempt = 0;
    if (message.type === "history") {
      const mine = message.windows.filter((w) => w.scope === this.state.scope);
      this.set({ windows: mine.slice(-HISTORY) });
    }
    if (message.type === "window" && message.scope === this.state.scope) {
      this.watch();
      this.set({ status: "live", windows: append(this.state.windows, message) });
    }
  }

  private watch(): void {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.set({ status: "stale" }), STALE_AFTER_MS);
  }

  private set(change: Partial<LiveState>): void {
    this.state = { ...this.state, ...change };
    for (const listener of this.listeners) listener();
  }
}

/** Keeps windows ordered and unique by time: after a reconnect the history overlaps what is already here. */
export function append(windows: LiveWindow[], next: LiveWindow): LiveWindow[] {
  const last = windows.at(-1);
  if (!last) return [next];
  // Thousands of replicas are kept once, not 300 times
  if (next.at > last.at)
    return [...windows.slice(-HISTORY, -1), { ...last, replicas: [] }, next].slice(-HISTORY);
  return [...windows.filter((w) => w.at !== next.at), next].sort((a, b) => a.at - b.at).slice(-HISTORY);
}
