// Streams one answer with OpenAI's own client.
//
//   npm install openai
//   KEY=key_….secret node examples/openai_client.mjs "What is the capital of France?"
import OpenAI from "openai";

const client = new OpenAI({
  apiKey: process.env.KEY,
  baseURL: process.env.BASE_URL ?? "http://localhost:8000/v1",
});

const stream = await client.chat.completions.create({
  model: process.env.MODEL ?? "smollm2-135m",
  messages: [{ role: "user", content: process.argv[2] ?? "What is the capital of France?" }],
  temperature: 0,
  stream: true,
  stream_options: { include_usage: true },
});

for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
  if (chunk.usage) {
    const { prompt_tokens, completion_tokens } = chunk.usage;
    process.stdout.write(`\n(${prompt_tokens} prompt tokens, ${completion_tokens} generated)\n`);
  }
}
