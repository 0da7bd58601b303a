// Calculators: a form with live results. It walks the formula trees that the page holds as JSON, with the meaning
// that scripts/openbook/expressions.py gives them; nothing of it is evaluated as a script.
;(() => {
  // Formulas

  class NoResult extends Error {}
  const general = x => String(Number(x.toPrecision(6)))
  function finite(value, what) {
    if (!Number.isFinite(value)) throw new NoResult(`${what} is not a finite number`)
    return value
  }
  function number(value, what) {
    if (typeof value !== "number") throw new NoResult(`${what} gives ${value} where a number is needed`)
    return value
  }
  function truth(value) {
    if (typeof value !== "boolean") throw new NoResult(`${value} is not a condition`)
    return value
  }
  function divisor(b, what) {
    if (b === 0) throw new NoResult(`division by zero in ${what}`)
    return b
  }
  function logarithm(function_, name) {
    return (x, ...base) => {
      if ([x, ...base].some(one => one <= 0)) throw new NoResult(`${name}(${[x, ...base].map(general).join(", ")}) is not defined`)
      return base.length ? Math.log(x) / divisor(Math.log(base[0]), name) : function_(x)
    }
  }
  const CALCULATE = {
    "+": (a, b) => a + b,
    "-": (a, b) => a - b,
    "*": (a, b) => a * b,
    "/": (a, b) => a / divisor(b, "/"),
    "//": (a, b) => Math.floor(a / divisor(b, "//")),
    "%": (a, b) => a - b * Math.floor(a / divisor(b, "%")),
    "**": (a, b) => {
      if (a === 0 && b < 0) divisor(0, "**")
      if (a < 0 && !Number.isInteger(b)) throw new NoResult(`${general(a)} ** ${general(b)} is not a real number`)
      return a ** b
    },
    neg: a => -a,
    min: Math.min,
    max: Math.max,
    ceil: Math.ceil,
    floor: Math.floor,
    abs: Math.abs,
    log: logarithm(Math.log, "log"),
    log2: logarithm(Math.log2, "log2"),
    log10: logarithm(Math.log10, "log10"),
    sqrt: a => {
      if (a < 0) throw new NoResult(`sqrt(${general(a)}) is not defined`)
      return Math.sqrt(a)
    },
  }
  const COMPARE = {
    "==": (a, b) => a === b,
    "!=": (a, b) => a !== b,
    "<": (a, b) => a < b,
    "<=": (a, b) => a <= b,
    ">": (a, b) => a > b,
    ">=": (a, b) => a >= b,
  }
  function compare(signs, args) {
    return signs.every((sign, n) => {
      const [left, right] = [args[n], args[n + 1]]
      if ((typeof left === "string") !== (typeof right === "string")) throw new NoResult(`${left} ${sign} ${right} compares text with a number`)
      return COMPARE[sign](left, right)
    })
  }
  function evaluate(tree, values) {
    if ("number" in tree) return tree.number
    if ("text" in tree) return tree.text
    if ("name" in tree) {
      const value = values[tree.name]
      return typeof value === "string" ? value : finite(value, tree.name)
    }
    const of = one => evaluate(one, values)
    if ("compare" in tree) return compare(tree.compare, tree.args.map(of))
    if (tree.op === "if") return of(tree.args[truth(of(tree.args[0])) ? 1 : 2])
    if (tree.op === "not") return !truth(of(tree.args[0]))
    if (tree.op === "and") return tree.args.every(one => truth(of(one)))
    if (tree.op === "or") return tree.args.some(one => truth(of(one)))
    const what = tree.call ?? tree.op
    const numbers = tree.args.map(one => number(of(one), "a part of the formula"))
    return finite(CALCULATE[what](...numbers), what)
  }
  /** Results by name, each in its unit, and all values in base units. Throws NoResult. */
  function compute(data, inputs) {
    const base = {}
    for (const one of data.inputs) {
      const value = inputs[one.name]
      base[one.name] = typeof value === "string" ? value : value * one.factor
    }
    const results = {}
    for (const formula of data.formulas) {
      try {
        base[formula.name] = number(evaluate(formula.tree, base), "the formula")
        results[formula.name] = finite(base[formula.name] / formula.factor, formula.name)
      } catch (problem) {
        if (problem instanceof NoResult) problem.message = `${formula.title}: ${problem.message}`
        throw problem
      }
    }
    return { results, base }
  }

  // Numbers and formulas as text, as fences/calculator_text.py writes them

  function shown(value, unit, digits) {
    if (typeof value === "string") return value
    if (digits) value = Number(value.toPrecision(digits))
    value += 0 // no −0
    const outside = value && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e15)
    const text = outside
      ? Number(value.toPrecision(12)).toExponential().replace("e+", "e")
      : value.toLocaleString("en-US", { maximumSignificantDigits: 12 })
    return unit ? `${text}\u00a0${unit}` : text
  }
  const SIGNS = { "*": "×", "<=": "≤", ">=": "≥", "!=": "≠", "==": "=", "-": "−" }
  const STRENGTH = { or: 1, and: 2, not: 3, compare: 4, "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6, neg: 7, "**": 8 }
  const ATOM = 9
  function text(tree, names, values) {
    if ("number" in tree) return [shown(tree.number), ATOM]
    if ("text" in tree) return [`“${tree.text}”`, ATOM]
    if ("name" in tree) return [names[tree.name], ATOM]
    const part = (one, least) => {
      const [inner, strength] = text(one, names, values)
      return strength >= least ? inner : `(${inner})`
    }
    const args = tree.args
    if ("call" in tree) return [`${tree.call}(${args.map(one => part(one, 0)).join(", ")})`, ATOM]
    if (tree.op === "if") return text(args[evaluate(args[0], values) ? 1 : 2], names, values)
    const what = tree.compare ? "compare" : tree.op
    const strength = STRENGTH[what]
    if (what === "neg") return [`−${part(args[0], strength)}`, strength]
    if (what === "not") return [`not ${part(args[0], strength)}`, strength]
    if (what === "**") return [`${part(args[0], ATOM)} ^ ${part(args[1], strength - 1)}`, strength]
    const signs = tree.compare ?? args.slice(1).map(() => what)
    const first = part(args[0], what === "compare" ? strength + 1 : strength)
    return [first + signs.map((sign, n) => ` ${SIGNS[sign] ?? sign} ${part(args[n + 1], strength + 1)}`).join(""), strength]
  }

  // What a reader types

  const NUMBER = /^[-+]?(\d+|\d{1,3}([, _\u00a0]\d{3})+)?(\.\d*)?(e[-+]?\d+)?$/i
  function typed(one, entry) {
    const raw = entry.trim()
    if (one.choices) {
      const choice = one.choices.find(([value]) => String(value) === raw)
      if (!choice) throw new NoResult(`One of ${one.choices.map(([value]) => value).join(", ")}`)
      return choice[0]
    }
    const value = NUMBER.test(raw) && /\d/.test(raw) ? Number(raw.replace(/[, _\u00a0]/g, "")) : NaN
    if (!Number.isFinite(value)) throw new NoResult("Not a number: 7.5 and 7.5e9 are")
    if (value < one.least || value > one.most) throw new NoResult(`From ${shown(one.least)} to ${shown(one.most)}`)
    if (one.whole && !Number.isInteger(value)) throw new NoResult("A whole number")
    return value
  }

  // The form

  const make = (name, properties, ...children) => {
    const element = Object.assign(document.createElement(name), properties)
    element.append(...children)
    return element
  }
  function field(data, one) {
    const id = `${data.id}.${one.name}`
    const control = one.choices
      ? make("select", { id }, ...one.choices.map(([value, title]) => new Option(title, value)))
      : make("input", { id, type: "text", inputMode: "decimal", autocomplete: "off", spellcheck: false, required: true })
    const range = one.choices ? "" : `${shown(one.least)} to ${shown(one.most)}`
    const hint = make("span", { id: `${id}-hint`, className: "calculator-note" })
    control.setAttribute("aria-describedby", hint.id)
    const label = make("label", { htmlFor: id }, `${one.title} `, make("code", { textContent: one.name }))
    const unit = one.unit ? [make("span", { className: "calculator-unit", textContent: one.unit })] : []
    const row = make("div", {}, label, make("span", { className: "calculator-entry" }, control, ...unit), hint)
    return { ...one, control, hint, row, usual: [range, one.note].filter(Boolean).join("; ") }
  }
  function choice(preset, apply) {
    const select = make("select", {}, new Option("–", ""), ...preset.options.map(([title], n) => new Option(title, n)))
    select.addEventListener("change", () => select.value && apply(preset.options[Number(select.value)][1], select))
    return [select, make("label", {}, `${preset.title} `, select)]
  }
  function remember(data, fields) {
    const address = new URL(location.href)
    for (const one of fields) {
      const key = `${data.id}.${one.name}`
      if (one.control.value.trim() === String(one.default)) address.searchParams.delete(key)
      else address.searchParams.set(key, one.control.value.trim())
    }
    try {
      history.replaceState(history.state, "", address)
    } catch {
      // too many changes in a short time, or a page from a disk: the results matter more
    }
  }

  function enhance(calculator) {
    const script = calculator.querySelector("script[type='application/json']")
    const list = calculator.querySelector(".calculator-inputs")
    if (!list) return
    const data = JSON.parse(script.textContent)
    const fields = data.inputs.map(one => field(data, one))
    const output = calculator.querySelector("output")
    const steps = [...calculator.querySelectorAll(".calculator-steps .calculator-numbers")]

    function update() {
      const values = {}
      for (const one of fields) {
        let wrong = ""
        try {
          values[one.name] = typed(one, one.control.value)
        } catch (problem) {
          wrong = problem.message
        }
        one.control.setAttribute("aria-invalid", String(Boolean(wrong)))
        one.hint.textContent = wrong || one.usual
        one.hint.classList.toggle("calculator-wrong", Boolean(wrong))
      }
      const invalid = fields.find(one => !(one.name in values))
      try {
        if (invalid) throw new NoResult(`${invalid.title}: ${invalid.hint.textContent}`)
        tell(values)
      } catch (problem) {
        if (!(problem instanceof NoResult)) throw problem
        output.replaceChildren(make("span", { className: "calculator-wrong", textContent: problem.message }))
        for (const step of steps) step.textContent = "–"
      }
    }
    function tell(values) {
      const { results, base } = compute(data, values)
      const names = {}
      for (const one of data.inputs) names[one.name] = shown(values[one.name], one.unit)
      for (const one of data.formulas) names[one.name] = shown(results[one.name], one.unit, one.digits)
      data.formulas.forEach((one, n) => {
        steps[n].textContent = `${text(one.tree, names, base)[0]} = ${names[one.name]}`
      })
      const answers = data.formulas.filter(one => data.outputs.includes(one.name))
      output.replaceChildren(...answers.map(one => make("span", {}, `${one.title}: `, make("strong", { textContent: names[one.name] }))))
    }
    function fill(values) {
      for (const one of fields) if (one.name in values) one.control.value = String(values[one.name])
    }

    const presets = data.presets.map(preset =>
      choice(preset, (values, select) => {
        fill(values)
        changed(select)
      })
    )
    function changed(kept) {
      for (const [select] of presets) if (select !== kept) select.value = ""
      update()
      remember(data, fields)
    }
    const reset = make("button", { type: "reset", className: "calculator-reset", textContent: "Reset" })
    const tools = make("div", { className: "calculator-tools" }, ...presets.map(([, label]) => label), reset)
    const form = make("form", { className: "calculator-form", noValidate: true }, ...fields.map(one => one.row), tools)
    const usual = Object.fromEntries(data.inputs.map(one => [one.name, one.default]))
    form.addEventListener("submit", event => event.preventDefault())
    form.addEventListener("reset", event => {
      event.preventDefault()
      fill(usual)
      changed()
    })
    for (const one of fields) one.control.addEventListener("input", () => changed())
    const given = new URL(location.href).searchParams
    fill(usual)
    fill(Object.fromEntries(data.inputs.map(one => [one.name, given.get(`${data.id}.${one.name}`)]).filter(([, value]) => value !== null)))
    list.replaceWith(form)
    update()
  }

  const all = () => document.querySelectorAll(".calculator").forEach(enhance)
  typeof document$ === "undefined" ? addEventListener("DOMContentLoaded", all) : document$.subscribe(all)
})()
