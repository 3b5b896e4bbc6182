/** The server's REST API, typed by its OpenAPI document. Every failure is an ApiError with one sentence. */
import createClient from "openapi-fetch";
import { strings } from "@/strings";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Problem = Schemas["Problem"];

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly problems: readonly Problem[] = [],
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** What a change made with the session's cookie has to carry. */
const HEADERS = { "X-Nnimgr-Request": "dashboard", "Content-Type": "application/json" };

export const api = createClient<paths>({ headers: HEADERS });

interface Answer<T> {
  data?: T | undefined;
  error?: unknown;
  response: Response;
}

/** The answer of a call, or an ApiError. */
export async function answerOf<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, strings.common.noAnswer);
  }
  if (!answer.response.ok) throw failure(answer.response.status, answer.error);
  return answer.data as T;
}

/** A plain request, for what is no JSON. */
export async function request(path: string, init: Omit<RequestInit, "headers"> = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: HEADERS });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, strings.common.noAnswer);
  }
  if (!response.ok) throw failure(response.status, await response.json().catch(() => undefined));
  return response;
}

/** One sentence on whatever was thrown. */
export function sentenceOf(error: unknown): string {
  const isSaid = ({ message }: Problem) => error instanceof ApiError && error.message.includes(message);
  if (error instanceof ApiError && !error.problems.every(isSaid))
    return strings.common.because(
      error.message,
      error.problems.map(({ field, message }) => `${field} ${message}`),
    );
  return error instanceof Error ? error.message : String(error);
}

function failure(status: number, body: unknown): ApiError {
  const error = (body as { error?: { message?: string; problems?: Problem[] } } | undefined)?.error;
  return new ApiError(status, error?.message ?? strings.common.refused(status), error?.problems ?? []);
}
