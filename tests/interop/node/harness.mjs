// What the cases share: the broker's address, names, and the loop that runs them.

export const bootstrapBrokers = [process.env.BOOTSTRAP]
const WAIT_MS = 60_000
const cases = []
let names = 0

export function test (name, body) {
  cases.push({ name, body })
}

export function same (what, expected, actual) {
  const [wanted, got] = [expected, actual].map(value => JSON.stringify(value))
  if (wanted !== got) {
    throw new Error(`${what}: expected ${wanted}, got ${got}`)
  }
}

export function fresh (prefix) {
  names += 1
  return `${prefix}-js-${process.pid}-${names}`
}

export function numbered (count) {
  return Array.from({ length: count }, (_, index) => `v${index}`)
}

export async function until (what, condition) {
  const end = Date.now() + WAIT_MS / 2
  while (!(await condition())) {
    if (end < Date.now()) {
      throw new Error(`${what}: not in time`)
    }
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

function inTime (promise) {
  const late = new Promise((_resolve, reject) => {
    setTimeout(() => reject(new Error('the case takes too long')), WAIT_MS).unref()
  })
  return Promise.race([promise, late])
}

// Runs the cases that the arguments name, or all, and ends the program.
export async function main (wanted) {
  const chosen = cases.filter(({ name }) => wanted.length === 0 || wanted.includes(name))
  let failed = 0
  for (const { name, body } of chosen) {
    const start = Date.now()
    try {
      await inTime(body())
      console.log(`ok ${name} (${Date.now() - start} ms)`)
    } catch (error) {
      failed += 1
      console.log(`FAILED ${name}`, error)
    }
  }
  console.log(`cases ${chosen.length}`)
  process.exit(failed === 0 && chosen.length !== 0 ? 0 : 1)
}
