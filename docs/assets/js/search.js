// The theme turns each word of a query into a prefix, so that in "py-spy permission denied" py also means pyxis and
// PyTorch. Here whole words weigh most, longer ones are prefixes too, without their ending, and fillers are dropped.
// Weights: those of 2 to 10 that found most of 240 questions' sections, with the boost of titles in mkdocs.yml.
const WEIGHT = 6
const SHORTEST_PREFIX = 4
const SYNTAX = /["+^~*]/ // a reader who writes the search's own operators is taken at their word
const FILLERS = new Set(
  `a able about across after all almost also am among an and any are as at be because been but by can cannot could dear
  did do does either else ever every for from get got had has have he her hers him his how however i if in into is it
  its just least let like likely may me might most must my neither no nor not of off often on only or other our own
  rather said say says she should since so some than that the their them then there these they this tis to too twas us
  wants was we were what when where which while who whom why will with would yet you your`.split(/\s+/),
)
let separator = /[\s\-,:!=[\]()"`/<>{}$]+/ // until the worker is told that of mkdocs.yml

function stem(word) {
  const ending = ["ing", "ed", "es", "s"].find((one) => word.endsWith(one) && word.length - one.length >= SHORTEST_PREFIX)
  return ending ? word.slice(0, -ending.length) : word
}

function weighted(query) {
  if (SYNTAX.test(query)) return query
  const words = query.toLowerCase().split(separator).filter(Boolean)
  const kept = words.filter((word) => !FILLERS.has(word))
  return (kept.length ? kept : words)
    .flatMap((word, n, all) => {
      const prefix = stem(word)
      const typing = n === all.length - 1 // the last word may be half of one
      return typing || prefix.length >= SHORTEST_PREFIX ? [`${word}^${WEIGHT}`, prefix] : [`${word}^${WEIGHT}`]
    })
    .join(" ")
}

const post = Worker.prototype.postMessage
Worker.prototype.postMessage = function (message, ...rest) {
  if (message?.type === 0 && message.data?.config?.separator) separator = new RegExp(message.data.config.separator)
  const isQuery = message?.type === 2 && typeof message.data === "string"
  return post.call(this, isQuery ? { ...message, data: weighted(message.data) } : message, ...rest)
}
