// One chat completion by the official openai SDK for Node, as any user would write it; what came of it as JSON on stdout.
// usage: node ask.mjs BASE_URL plain|stream OPTIONS(JSON: model, key, timeout, maxRetries, http2: by ALPN, whatever the certificate)
import diagnostics from "node:diagnostics_channel";
import OpenAI from "openai";

const [baseURL, mode, text] = process.argv.slice(2);
const options = JSON.parse(text ?? "{}");
const result = { text: "", chunks: 0, usage: null, error: null, status: null, protocol: null };
diagnostics.subscribe("undici:client:connected", ({ socket }) => (result.protocol = socket.alpnProtocol));
async function http2() {
  const { Agent, fetch } = await import("undici");
  return { fetch, fetchOptions: { dispatcher: new Agent({ allowH2: true, connect: { rejectUnauthorized: false } }) } };
}
const client = new OpenAI({
  ...(options.http2 ? await http2() : {}),
  baseURL,
  apiKey: options.key ?? "none",
  ...(options.timeout === undefined ? {} : { timeout: options.timeout * 1000 }),
  maxRetries: options.maxRetries ?? 0,
});
const request = {
  model: options.model ?? "m",
  messages: [{ role: "user", content: options.text ?? "hello" }],
};
const began = Date.now();
try {
  if (mode === "stream") {
    const stream = await client.chat.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const chunk of stream) {
      result.chunks += 1;
      result.text += chunk.choices[0]?.delta?.content ?? "";
      result.usage = chunk.usage ?? result.usage;
    }
  } else {
    const answer = await client.chat.completions.create(request);
    result.text = answer.choices[0].message.content;
    result.usage = answer.usage;
  }
} catch (error) {
  result.error = `${error.constructor.name}: ${error.message}`;
  result.status = error.status ?? null;
  result.code = error.code ?? null;
}
result.seconds = (Date.now() - began) / 1000;
console.log(JSON.stringify(result));
